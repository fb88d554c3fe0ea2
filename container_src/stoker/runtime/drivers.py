"""Jobs of SDK v3: its bash and drivers replace `train`; this process supervises them.

`bash_env.sh` starts it instead of the shell that `ModelTrainer` names as the entry point. It
forwards signals, reaps orphans, keeps lines whole, and puts the script's own error where the
drivers write theirs.
"""

from __future__ import annotations

import os
import re

from stoker.bus.crash import FOLDER_VARIABLE
from stoker.contract.code import CODE_CHANNEL
from stoker.contract.job import Job, read_job
from stoker.contract.outcome import Outcome
from stoker.contract.secrets import Masker
from stoker.runtime.crashes import CrashFolder
from stoker.runtime.distribution import TORCHRUN_SHUTDOWN_SECONDS
from stoker.runtime.entry import (
    find_rules,
    prepare,
    run_worker,
    start_profiler,
    write_pages,
)
from stoker.runtime.finish import make_outcome
from stoker.runtime.folders import make_folders
from stoker.runtime.guard import run_guarded
from stoker.runtime.log import Log
from stoker.runtime.signals import Signals
from stoker.runtime.step import WORKER_GRACE_SECONDS, WORKER_VARIABLE, LaunchStep
from stoker.runtime.watch import Ended, Watch

# Of the exception that the drivers raise when the script fails, below its traceback.
_VERDICT = re.compile(r"Command failed with exit code (-?\d+)")


def main(argv: list[str]) -> int:
    """Runs the shell command of the drivers and reports how it ended."""
    signals = Signals()
    signals.install()
    watch = Watch(signals, Log())
    code = run_guarded(lambda: _run(watch, argv[0]), signals=signals, log=watch.log)
    if watch.profiler is not None:
        watch.profiler.close()
    return code


def _run(watch: Watch, command: str) -> Outcome:
    job = read_job()
    watch.log.level = job.log_level
    watch.log.mask = Masker(job.environ, job.hyperparameters.raw)
    make_folders(job, watch.log)
    start_profiler(job, watch)
    with CrashFolder(job.environ.get("TMPDIR", "/tmp")) as crash_dir:  # noqa: S108 - private
        rules = find_rules(job, _code_dir(job), watch.log)
        if rules is not None:
            prepare(rules.make_check_step(), watch)
        worker = _make_step(job, command, crash_dir)
        ended = _without_driver_noise(run_worker(job, worker, rules, watch))
        outcome = make_outcome(
            job,
            ended,
            crash_dir=crash_dir,
            launcher="drivers",
            mask=watch.log.mask,
        )
        write_pages(job, outcome, rules, watch)
        return outcome


def _code_dir(job: Job) -> str:
    """SDK v3 sends the source directory as the channel `code`."""
    channel = job.channels.by_name.get(CODE_CHANNEL)
    return channel.path if channel is not None else job.paths.code_dir


def _make_step(job: Job, command: str, crash_dir: str) -> LaunchStep:
    # In rising order: the user's own values win over the first three, the last two over the
    # user's.
    environ = {
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(TORCHRUN_SHUTDOWN_SECONDS),
        "SM_CHECKPOINT_DIR": job.services.checkpoint_dir,
        "SM_TENSORBOARD_DIR": job.services.tensorboard_dir,
        **job.environ,
        WORKER_VARIABLE: "1",
        FOLDER_VARIABLE: crash_dir,
    }
    return LaunchStep(
        name="the SDK's driver",
        argv=("/bin/bash", "-c", command),
        environ=environ,
        folder=os.getcwd(),
        grace_seconds=WORKER_GRACE_SECONDS,
    )


def _without_driver_noise(ended: Ended) -> Ended:
    """What the script said and how it ended: the drivers merge its two streams into stdout."""
    said, code, by_signal = ended.stdout_tail, ended.exit_code, ended.by_signal
    if verdict := _VERDICT.search(said):
        # They exit with Python's -n for a signal, which the kernel makes 256 - n.
        said, signed = said[: verdict.start()], int(verdict[1])
        code = 128 - signed if signed < 0 else code
        by_signal = -signed if signed < 0 else 0
    traced = ended.stderr_tail.splitlines(keepends=True)
    return ended.replace(
        exit_code=code,
        by_signal=by_signal,
        stdout_tail=said,
        stderr_tail="".join(line for line in traced if not line.startswith("+")),  # bash -x
    )
