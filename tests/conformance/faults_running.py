"""Faults of the group `running`: one for each check (see faults.py).

`FAULTS` patches the launcher inside the container; `IMAGES` adds lines to the Dockerfile; `ALSO`
declares, with the reason, which other checks a fault fails (`make cross` tries it).
"""

from __future__ import annotations

import os
import time


def output_waits_for_a_full_block():
    """25: passes output on in blocks of 8 KiB, as a launcher does that forgets to flush."""
    from stoker.runtime.pump import Pump

    write, finish = Pump._write, Pump.finish

    def write_blocks(self, text):
        self.held = getattr(self, "held", b"") + text
        if len(self.held) >= 8192:
            write(self, self.held)
            self.held = b""

    def finish_blocks(self):
        finish(self)
        write(self, getattr(self, "held", b""))

    Pump._write, Pump.finish = write_blocks, finish_blocks


def streams_are_merged():
    """26: one pipe for both streams, so a bar and a line meet in it."""
    from stoker.runtime import launch

    become = launch._become

    def become_merged(step, stdout, _stderr, fault):
        become(step, stdout, stdout, fault)

    launch._become = become_merged


def patience_is_short():
    """27: kills the script 5 s after SIGTERM, not shortly before the platform would."""
    from stoker.runtime import plan

    plan.WORKER_GRACE_SECONDS = 5.0


def everybody_is_told():
    """28: torchrun's workers are signalled too, so they receive it twice."""
    from stoker.runtime import watch

    def tell(pid, number):
        for worker in watch.descendants(pid):
            watch.send(worker, number)
        time.sleep(0.5)  # two signals at once would be one
        watch.send(pid, number)

    watch._tell = tell


def early_stop_is_a_failure():
    """29: a stop before the start is reported as pip's failure."""
    from stoker.contract.outcome import Outcome
    from stoker.runtime import report

    report.stopped_early = lambda number: Outcome(
        kind="failed", exit_code=1, reason=f"install requirements failed: exit code {-number}"
    )


def stop_cleans_up():
    """30: treats what is in output/data at SIGTERM as half-written, and removes it."""
    from stoker.runtime import watch

    tell = watch._tell

    def tell_and_clean(pid, number):
        for name in os.listdir("/opt/ml/output/data"):
            os.remove(f"/opt/ml/output/data/{name}")
        tell(pid, number)

    watch._tell = tell_and_clean


def silence_is_death():
    """31: kills a script that has printed nothing for four seconds."""
    from stoker.runtime import watch

    run, turn = watch._StepRun.run, watch.EventLoop.turn

    def run_impatiently(self, prepare_end):
        def turn_or_kill(loop, timeout_seconds):
            wait_seconds = 4.0 if loop._signals.stop_signal is None else timeout_seconds
            happened = turn(loop, wait_seconds)
            if not happened and wait_seconds == 4.0:
                watch.send(self._pid, watch.SIGKILL)
            return happened

        watch.EventLoop.turn = turn_or_kill
        return run(self, prepare_end)

    watch._StepRun.run = run_impatiently


def shared_memory_is_not_named():
    """32: the failure text keeps quiet about shared memory."""
    from stoker.runtime import diagnosis

    compose = diagnosis._compose

    def compose_vaguely(*parts):
        text = compose(*parts)
        return "the script failed" if "shared memory" in text else text

    diagnosis._compose = compose_vaguely


def only_the_leader_counts():
    """33: a failure on another host than the first is a success."""
    from stoker.contract.outcome import Outcome
    from stoker.runtime import finish

    make_outcome = finish.make_outcome

    def make_leaders_outcome(job, ended, **how):
        if not job.is_leader:
            return Outcome(kind="success", exit_code=0)
        return make_outcome(job, ended, **how)

    finish.make_outcome = make_leaders_outcome


def launcher_knows_better():
    """34: overwrites the user's NCCL settings, as the stock toolkit does."""
    from stoker.runtime import plan

    make = plan.make_network_environment
    plan.make_network_environment = lambda *given: {**make(*given), "NCCL_PROTO": "simple"}


def warm_pool_is_ignored():
    """36: keeps no cache between jobs."""
    from stoker.runtime import requirements

    requirements._warm_pool = lambda _job: None


def state_is_kept_in_var():
    """37: needs a folder outside of /opt/ml and /tmp."""
    os.makedirs("/var/lib/train/state")


FAULTS = {
    25: output_waits_for_a_full_block,
    26: streams_are_merged,
    27: patience_is_short,
    28: everybody_is_told,
    29: early_stop_is_a_failure,
    30: stop_cleans_up,
    31: silence_is_death,
    32: shared_memory_is_not_named,
    33: only_the_leader_counts,
    34: launcher_knows_better,
    36: warm_pool_is_ignored,
    37: state_is_kept_in_var,
}
# Our own `train` needs bash as well, so it does without here: else every check would fail.
_NO_BASH = "RUN sed -i '1s|.*|#!/bin/sh|' /opt/venv/bin/train && rm -f /bin/bash /usr/bin/bash"
IMAGES = {35: ("there is no bash.", _NO_BASH)}

ALSO: dict[int, dict[str, set[int]]] = {
    25: {"what it says about late peers is held back, too": {14}},
    35: {"SDK v3 starts its drivers with bash": {5}},
}
