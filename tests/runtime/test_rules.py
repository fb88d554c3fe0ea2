"""Rules beside a real job: the launcher, a worker that saves tensors, and the evaluator."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import stoker
from stoker.bus.rule_status import read_rule_statuses
from stoker.contract.paths import Paths
from stoker.runtime.processes import descendants
from tests.conftest import DEADLINE_SECONDS, wait_for_file

pytestmark = pytest.mark.functional

LONGEST_SECONDS = 280
PACKAGES = str(Path(stoker.__file__).parents[1])
# What a worker with our hook leaves on disk, without the seconds that torch takes to load.
SAVING = """
import os, signal, sys, time
import numpy as np
from stoker.debugging.tensors import SavedStep, write_step

ROOT = os.environ["STOKER_ROOT"]

def save(step, loss=1.0):
    tensors = {"CrossEntropyLoss_output_0": np.array([loss], np.float32)}
    saved = SavedStep(step=step, mode="TRAIN", mode_step=step, tensors=tensors)
    write_step(ROOT + "/output/tensors", "worker_0", saved)

def note(name, text=""):
    with open(ROOT + "/model/" + name, "a") as file:
        file.write(text)

def wait_for(name):
    for _ in range(28000):
        if os.path.exists(ROOT + "/" + name):
            return
        time.sleep(0.01)
    sys.exit("no signal came")

def train_until_stopped():
    for step in range(14000):
        save(step, 1.0 if step < 3 else float("nan"))
        time.sleep(0.02)
    sys.exit("nobody stopped it")
"""
# What the hook reads, without the seconds that torch takes to load.
SHOW_NEEDS = """
from stoker.bus.rule_plan import read_rule_plan
from stoker.contract.paths import read_paths
from stoker.debugging.specs import make_needs, read_specs
text = read_rule_plan(read_paths())
print(len(make_needs(read_specs(text))) if text else 0, "needs")
save(0, float("nan"))
"""


class Job:
    """A job with rules over one root."""

    def __init__(self, opt_ml) -> None:
        self.opt_ml = opt_ml
        self.root: Path = opt_ml.root

    def script(self, text: str, **hyperparameters: str) -> None:
        self.opt_ml.script(SAVING + textwrap.dedent(text), **hyperparameters)

    def start(self, rules: str, *arguments: str, **environ: str):
        variables = {"STOKER_RULES": rules} if rules else {}
        return self.opt_ml.start(*arguments, **variables, PYTHONPATH=PACKAGES, **environ)

    def run(self, rules: str, *arguments: str, **environ: str):
        return self.end(self.start(rules, *arguments, **environ))

    def end(self, process):
        # The evaluator is niced: on a busy machine it takes its time.
        out, err = process.communicate(timeout=LONGEST_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @property
    def statuses(self):
        return {rule.name: rule for rule in read_rule_statuses(Paths(root=str(self.root)))}

    def touch(self, name: str) -> None:
        (self.root / name).touch()


@pytest.fixture
def job(opt_ml):
    return Job(opt_ml)


def find_evaluator(process) -> int:
    """The process id of the sidecar, once it is there."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        for pid in descendants(process.pid):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"stoker.debugging.evaluate" in command and b"--prepare" not in command:
                return pid
        time.sleep(0.01)
    raise AssertionError("no evaluator was started")


def test_the_address_of_a_webhook_is_in_no_file_while_the_script_runs(job):
    job.script("""
        import pathlib
        files = [f for f in pathlib.Path(ROOT, "output").rglob("*") if f.is_file()]
        print([str(f) for f in files if b"s3cr3t-hook" in f.read_bytes()])
    """)
    done = job.run("LossNotDecreasing(webhook=http://127.0.0.1:9/s3cr3t-hook)")
    assert "[]" in done.stdout.splitlines(), done.stdout + done.stderr


def test_a_script_that_never_asks_is_stopped_by_sigterm_and_that_is_an_ordinary_end(job):
    job.script("train_until_stopped()")
    done = job.run("ExplodingTensor(stop), LossNotDecreasing(num_steps=1000)")
    assert done.returncode == 0, done.stderr
    assert "[stoker] rule ExplodingTensor at step 3: CrossEntropyLoss_output_0" in done.stdout
    assert "[stoker] stopped by rule ExplodingTensor at step 3: CrossEntropyLoss" in done.stderr
    assert "rules: ExplodingTensor IssuesFound at step 3" in done.stderr
    assert job.opt_ml.failure == ""
    assert job.statuses["ExplodingTensor"].status == "IssuesFound"
    assert (job.root / "output/tensors/training_job_end.ts").exists()


def test_the_scripts_own_handler_has_its_say(job):
    job.script("""
        def leave(*_):
            note("saved", "once\\n")
            sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        train_until_stopped()
    """)
    done = job.run("ExplodingTensor(stop)")
    assert done.returncode == 0, done.stderr
    assert (job.root / "model/saved").read_text() == "once\n"
    assert "stopped by rule ExplodingTensor at step 3" in done.stderr


def test_a_script_that_asks_leaves_by_itself(job):
    job.script("""
        import stoker
        job = stoker.job()
        for step in range(14000):
            if job.should_stop():
                note("left")
                sys.exit(0)
            save(step, float("nan"))
            time.sleep(0.02)
        sys.exit("nobody stopped it")
    """)
    done = job.run("ExplodingTensor(stop)")
    assert done.returncode == 0, done.stderr
    assert (job.root / "model/left").exists()
    assert "stopped by rule ExplodingTensor at step 0" in done.stderr


def test_a_script_that_fails_while_it_is_stopped_has_failed(job):
    job.script("""
        def fail(*_):
            raise ValueError("cannot save")
        signal.signal(signal.SIGTERM, fail)
        train_until_stopped()
    """)
    done = job.run("ExplodingTensor(stop)")
    assert done.returncode == 1
    assert "ValueError: cannot save" in job.opt_ml.failure


def test_a_handler_that_leaves_with_a_code_of_its_own_has_stopped(job):
    job.script("""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        train_until_stopped()
    """)
    done = job.run("ExplodingTensor(stop)")
    assert done.returncode == 0, done.stderr
    assert "stopped by rule ExplodingTensor at step 3" in done.stderr
    assert done.stderr.endswith(", exit code 3\n")
    assert job.opt_ml.failure == ""


def test_a_script_that_gives_up_by_itself_has_failed_whatever_a_rule_requests_then(job):
    job.script("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        save(0, float("nan"))
        wait_for("output/data/stoker/findings.jsonl")
        raise FloatingPointError("the loss is NaN")
    """)
    done = job.run("ExplodingTensor(stop)")
    assert done.returncode == 1, done.stderr
    assert "FloatingPointError: the loss is NaN" in job.opt_ml.failure


def test_the_platforms_stop_after_a_rules_is_not_told_a_second_time(job):
    job.script("""
        def leave(*_):
            note("told", "x")
            wait_for("go")
            sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        train_until_stopped()
    """)
    process = job.start("ExplodingTensor(stop)")
    job.opt_ml.wait_for("model/told")
    process.send_signal(signal.SIGTERM)
    job.touch("go")
    done = job.end(process)
    assert done.returncode == 0, done.stderr
    assert (job.root / "model/told").read_text() == "x"
    assert "stopped by rule ExplodingTensor at step 3" in done.stderr


def test_a_script_that_ignores_the_stop_is_killed_after_its_grace_and_that_is_a_stop(tmp_path):
    """The grace of a job is two minutes; here the same loop has another step."""
    program = textwrap.dedent("""
        import os, sys
        from stoker.contract.paths import Paths
        from stoker.runtime.log import Log
        from stoker.runtime.sidecar import Sidecar
        from stoker.runtime.signals import Signals
        from stoker.runtime.step import LaunchStep
        from stoker.runtime.watch import Watch

        root, stubborn, rule = sys.argv[1:]
        def step(code, **more):
            return LaunchStep(name="stubborn", argv=(sys.executable, "-c", code),
                        environ=dict(os.environ), folder="/", **more)
        paths = Paths(root=root)
        signals = Signals()
        signals.install()
        sidecar = Sidecar(step(rule), paths)
        ended = Watch(signals, Log()).run(step(stubborn, grace_seconds=0.5), lambda: sidecar)
        sidecar.finish(signals, limit_seconds=60)
        print(ended.exit_code, ended.was_killed, ended.stopped_by.by, sidecar.trouble)
    """)
    ready = str(tmp_path / "ready")
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); "
        f"open({ready!r}, 'w').close(); time.sleep(280)"
    )
    rule = (
        "import os, time\n"
        "from stoker.contract.paths import Paths\n"
        "from stoker.bus.stop import StopRequest, write_stop_request\n"
        f"while not os.path.exists({ready!r}): time.sleep(0.01)\n"
        f"write_stop_request(Paths(root={str(tmp_path)!r}), StopRequest(by='rule X'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), stubborn, rule],
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        env={**os.environ, "PYTHONPATH": PACKAGES},
    )
    assert done.stdout == "137 True rule X \n", done.stderr


def test_a_job_that_is_stopped_from_outside_stops_its_rules(job):
    job.script("""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        save(0)
        note("ready")
        time.sleep(280)
    """)
    process = job.start("ExplodingTensor, LossNotDecreasing")
    job.opt_ml.wait_for("model/ready")
    find_evaluator(process)
    process.send_signal(signal.SIGTERM)
    done = job.end(process)
    assert done.returncode == 0
    assert "stopped by SIGTERM" in done.stderr
    assert {rule.status for rule in job.statuses.values()} == {"Stopped"}


def test_an_evaluator_that_is_killed_harms_nothing_and_its_rules_are_errors(job):
    job.script("""
        save(0)
        wait_for("go")
        note("done")
    """)
    process = job.start("ExplodingTensor(stop)")
    os.kill(find_evaluator(process), signal.SIGKILL)
    # At once: the job may run for hours, and no rule stops it any more.
    deadline = time.monotonic() + DEADLINE_SECONDS
    while job.statuses["ExplodingTensor"].status != "Error" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "signal 9" in job.statuses["ExplodingTensor"].details
    job.touch("go")
    done = job.end(process)
    assert done.returncode == 0, done.stderr
    assert (job.root / "model/done").exists()
    assert done.stderr.count("warning: the evaluator of rules ended with signal 9") == 1
    assert job.statuses["ExplodingTensor"].status == "Error"


def test_a_starved_evaluator_does_not_block_the_job(job):
    job.script("""
        save(0)
        wait_for("go")
    """)
    process = job.start("ExplodingTensor", STOKER_RULES_FINISH_SECONDS="0")
    os.kill(find_evaluator(process), signal.SIGSTOP)
    job.touch("go")
    done = job.end(process)
    assert done.returncode == 0, done.stderr
    assert "did not end in time and was killed" in done.stderr
    assert job.statuses["ExplodingTensor"].status == "Error"


def test_a_script_that_saves_nothing_does_not_keep_its_job_waiting_for_the_rules(job):
    job.script("sys.exit('no such data')")
    # So long that the test fails if the evaluator is not told of the worker's end.
    done = job.run("ExplodingTensor(stop)", STOKER_RULES_FINISH_SECONDS=str(2 * LONGEST_SECONDS))
    assert done.returncode == 1
    status = job.statuses["ExplodingTensor"]
    assert status.status == "Error"
    assert "no tensors were saved at all" in status.details


def test_a_slow_rule_is_cut_short_and_says_what_it_has_not_seen(job):
    (job.root / "code/slow.py").write_text(
        textwrap.dedent("""
        import os, time
        from stoker.debugging.need import Need
        from stoker.debugging.rule import Rule

        class Slow(Rule):
            def needs(self):
                return [Need(collection="losses")]

            def check(self, step, tensors):
                root = os.environ["STOKER_ROOT"]
                if step == 0:
                    while not os.path.exists(root + "/saved"):
                        time.sleep(0.01)
                else:
                    open(root + "/judging", "w").close()
                    time.sleep(1.0)
        """)
    )
    job.script("""
        for step in range(100):
            save(step)
        open(ROOT + "/saved", "w").close()
        wait_for("judging")
    """)
    done = job.run("slow.py:Slow", STOKER_RULES_FINISH_SECONDS="0")
    assert done.returncode == 0, done.stderr
    status = job.statuses["Slow"]
    assert status.status == "Stopped"
    assert "of 100 saved steps were not evaluated" in status.details
    assert "saved steps behind" in done.stdout


@pytest.mark.parametrize("place", ["at import", "in check"])
def test_a_rule_that_hangs_keeps_no_other_from_stopping_the_job(job, place):
    (job.root / "code/hanging.py").write_text(
        textwrap.dedent(f"""
        import time
        from stoker import Need, Rule

        if {place!r} == "at import":
            time.sleep(280)

        class Hanging(Rule):
            def needs(self):
                return [Need(collection="losses")]

            def check(self, step, tensors):
                time.sleep(280)
        """)
    )
    job.script("train_until_stopped()")
    # From the service, where the mistake is that rule's own Error and the job runs.
    hanging = {"rule_to_invoke": "hanging.py:Hanging"}
    exploding = {"rule_to_invoke": "ExplodingTensor", "stop": "True"}
    rules = [
        {"RuleConfigurationName": "Hanging", "RuleParameters": hanging},
        {"RuleConfigurationName": "ExplodingTensor", "RuleParameters": exploding},
    ]
    done = job.run(json.dumps(rules), STOKER_RULES_CHECK_SECONDS="5")
    assert done.returncode == 0, done.stderr
    assert "stopped by rule ExplodingTensor at step 3" in done.stderr
    status = job.statuses["Hanging"]
    assert status.status == "Error"
    assert re.search(r"no answer within [\d.]+ s \(hanging\.py, line", status.details)


def test_a_rule_that_closes_the_output_takes_no_other_along(job):
    (job.root / "code/mine.py").write_text(
        textwrap.dedent("""
            import os
            from stoker import Need, Rule

            class Closes(Rule):
                \"\"\"Closes stdout, and fails the second time.\"\"\"
                def needs(self):
                    return [Need(collection="losses")]
                def check(self, step, tensors):
                    os.close(1)
        """)
    )
    job.script("save(0), save(1), save(2)")
    done = job.run("mine.py:Closes, ExplodingTensor")
    assert done.returncode == 0, done.stderr
    assert job.statuses["Closes"].status == "Error"
    assert job.statuses["ExplodingTensor"].status == "NoIssuesFound"


def test_a_rule_that_hangs_at_the_end_takes_no_other_along(job):
    (job.root / "code/hanging.py").write_text(
        textwrap.dedent("""
        import os, time
        from stoker import Need, Rule

        class Hanging(Rule):
            def needs(self):
                return [Need(collection="losses")]

            def check(self, step, tensors):
                open(os.environ["STOKER_ROOT"] + "/judging", "w").close()
                time.sleep(280)
        """)
    )
    job.script("""
        save(0)
        wait_for("judging")
    """)
    done = job.run("ExplodingTensor, hanging.py:Hanging", STOKER_RULES_FINISH_SECONDS="0")
    assert done.returncode == 0, done.stderr
    assert job.statuses["ExplodingTensor"].status == "NoIssuesFound"
    assert job.statuses["Hanging"].status == "Error"
    assert "the rule gave no answer within" in job.statuses["Hanging"].details


def test_a_rule_that_hoards_memory_is_an_error_and_no_danger_to_the_training(job):
    (job.root / "code/greedy.py").write_text(
        textwrap.dedent("""
        import numpy as np
        from stoker import Need, Rule

        class Greedy(Rule):
            def needs(self):
                return [Need(collection="losses")]

            def check(self, step, tensors):
                with open("/proc/self/oom_score_adj") as file:
                    assert file.read().strip() == "1000"
                self.hoard = [np.empty(1 << 27) for _ in range(1 << 20)]
        """)
    )
    # A module of the user's that has the name of one of Python's own does no harm.
    (job.root / "code/smtplib.py").write_text("raise RuntimeError('the wrong one')")
    job.script("save(0)")
    done = job.run("greedy.py:Greedy")
    assert done.returncode == 0, done.stderr
    status = job.statuses["Greedy"]
    assert status.status == "Error"
    assert "MemoryError" in status.details


def test_two_ranks_are_stopped_together(job):
    job.script(
        """
        signal.signal(signal.SIGTERM, lambda *_: (note("left" + os.environ["RANK"]), sys.exit(0)))
        if os.environ["RANK"] == "0":
            wait_for("model/ready")
            train_until_stopped()
        note("ready")
        time.sleep(280)
        """,
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
    )
    done = job.run("ExplodingTensor(stop)")
    assert done.returncode == 0, done.stderr
    assert "stopped by rule ExplodingTensor at step 3" in done.stderr
    assert sorted(file.name for file in (job.root / "model").iterdir()) == [
        "left0",
        "left1",
        "ready",
    ]
    assert job.opt_ml.failure == ""


def test_behind_the_drivers_of_sdk_v3_rules_work_too(job):
    job.script("train_until_stopped()")
    command = f"cd {job.root}/code && {sys.executable} train.py; exit $?"
    done = job.run("ExplodingTensor(stop)", "drivers", command)
    assert done.returncode == 0, done.stderr
    assert "stopped by rule ExplodingTensor at step 3" in done.stderr


def test_only_the_leader_evaluates(job):
    job.opt_ml.config("resourceconfig", {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})
    job.script("save(0, float('nan'))")
    done = job.run("ExplodingTensor(stop)", SM_STUDIO_LOCAL_MODE="true")
    assert done.returncode == 0, done.stderr
    assert "at step 0" not in done.stdout


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        ("ExplodingTensr(stop)", "did you mean ExplodingTensor?"),
        ("ExplodingTensor(only_nan=perhaps)", "parameter only_nan is 'perhaps'"),
        ("ExplodingTensor(", "rule ExplodingTensor, character 17"),
        ("mine.py:Large", "there is no file mine.py"),
    ],
)
def test_a_mistake_in_the_rules_ends_the_job_before_it_costs_anything(job, rules, what):
    job.script("note('ran')")
    done = job.run(rules)
    assert done.returncode == 78, done.stderr
    assert what in job.opt_ml.failure
    assert not (job.root / "model/ran").exists()


def test_a_mistake_in_the_services_rules_is_that_rules_error_and_the_job_runs(job):
    job.script("save(0, float('nan'))")
    rules = [
        {"RuleConfigurationName": "A", "RuleParameters": {"rule_to_invoke": "ExplodingTensr"}},
        {"RuleConfigurationName": "B", "RuleParameters": {"rule_to_invoke": "ExplodingTensor"}},
    ]
    done = job.run(json.dumps(rules))
    assert done.returncode == 0, done.stderr
    assert job.statuses["A"].status == "Error"
    assert "did you mean ExplodingTensor?" in job.statuses["A"].details
    assert job.statuses["B"].status == "IssuesFound"


def test_rules_of_stoker_toml_and_long_ones_in_pieces_reach_worker_and_evaluator(job):
    (job.root / "code/stoker.toml").write_text("[rules]\nExplodingTensor = true\n")
    job.script(SHOW_NEEDS)
    pieces = {"STOKER_RULES_1": "Decreasing(name=Los", "STOKER_RULES_2": "ses)"}
    done = job.run("LossNot", **pieces)
    assert done.returncode == 0, done.stderr
    assert "2 needs" in done.stdout
    assert sorted(job.statuses) == ["ExplodingTensor", "Losses"]


def test_rules_may_be_longer_than_a_variable_can_be(job):
    """The kernel takes no string of 128 KiB or more for a process."""
    names = "|".join(f"layer_{number}_output" for number in range(10_000))
    assert len(names) > 128 * 1024
    (job.root / "code/stoker.toml").write_text(
        f"[rules.ExplodingTensor]\ntensor_regex = '{names}|CrossEntropyLoss'\n"
    )
    job.script(SHOW_NEEDS)
    done = job.run("")
    assert done.returncode == 0, done.stderr
    assert "1 needs" in done.stdout
    assert job.statuses["ExplodingTensor"].status == "IssuesFound"


def test_the_rules_of_a_run_before_are_forgotten(job):
    """On a laptop several runs share a root."""
    job.script(SHOW_NEEDS)
    assert "1 needs" in job.run("ExplodingTensor").stdout
    assert "0 needs" in job.run("").stdout


def test_a_dry_run_shows_the_check_and_starts_nothing(job):
    job.script("note('ran')")
    done = job.run("ExplodingTensr", "--dry-run")
    assert done.returncode == 0
    assert "-m stoker.debugging.evaluate --prepare" in done.stderr
    assert not (job.root / "model/ran").exists()


def test_a_dry_run_of_the_rules_only_says_what_it_would_do(job):
    job.script("""
        save(0, float("nan"))
        wait_for("output/data/stoker/findings.jsonl")
        note("done")
    """)
    done = job.run("ExplodingTensor(stop)", STOKER_RULES_DRY_RUN="1")
    assert done.returncode == 0, done.stderr
    assert "rule ExplodingTensor would stop the job (dry run)" in done.stdout
    assert (job.root / "model/done").exists()


def test_the_markers_that_readers_wait_for_are_written_without_rules_too(job):
    job.opt_ml.config("debughookconfig", {"LocalPath": str(job.root / "elsewhere")})
    job.script("""
        os.makedirs(ROOT + "/elsewhere")
        os.makedirs(ROOT + "/output/profiler/system")
    """)
    done = job.run("")
    assert done.returncode == 0, done.stderr
    wait_for_file(job.root / "elsewhere/training_job_end.ts")
    wait_for_file(job.root / "output/profiler/system/training_job_end.ts")
    assert not (job.root / "output/profiler/framework").exists()


def test_a_job_without_rules_loads_nothing_of_them(job):
    job.script("pass")
    program = (
        "import sys; sys.argv[1:] = []\n"
        "from stoker.runtime.signals import Signals\n"
        "from stoker.runtime.entry import train\n"
        "signals = Signals(); signals.install()\n"
        "code = train([], signals)\n"
        "print(code, [m for m in sys.modules if 'debug' in m or m.endswith(('rules', 'sidecar'))])"
    )
    environ = {**os.environ, "PYTHONPATH": PACKAGES, "STOKER_ROOT": str(job.root)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environ, timeout=240
    )
    assert done.stdout == "0 []\n", done.stderr


def test_the_end_of_a_watched_job_is_a_page(job):
    job.script("train_until_stopped()")
    done = job.run("ExplodingTensor(stop), LossNotDecreasing(num_steps=1000)")
    page = job.root / "output/data/stoker/report.html"
    assert f"[stoker] report: {page}" in done.stdout
    text = page.read_text()
    assert "<b>stopped by rule ExplodingTensor at step 3: CrossEntropyLoss_output_0" in text
    assert "2 of 2 rules found something" in text


def test_a_failed_job_has_its_page_and_keeps_its_reason(job):
    job.script("save(0); raise SystemExit('the data are gone')")
    done = job.run("ExplodingTensor")
    assert done.returncode == 1
    assert "the data are gone" in job.opt_ml.failure
    assert "<b>failed the data are gone" in (
        job.root / "output/data/stoker/report.html"
    ).read_text().replace("SystemExit: ", "")


def test_a_page_that_cannot_be_written_changes_nothing(job):
    job.script("""
        save(0)
        os.makedirs(ROOT + "/output/data/stoker/report.html/in/the/way")
    """)
    done = job.run("ExplodingTensor")
    assert done.returncode == 0
    assert "report.html cannot be written: Is a directory" in done.stdout
    assert job.statuses["ExplodingTensor"].status == "NoIssuesFound"


def test_a_failure_of_binary_output_has_its_page(job):
    job.script("save(0); raise ValueError('a' + chr(0) + 'b')")
    done = job.run("ExplodingTensor")
    assert done.returncode == 1
    assert job.opt_ml.failure.startswith("ValueError: a\ufffdb")
    assert "a\ufffdb" in (job.root / "output/data/stoker/report.html").read_text()


def test_a_request_to_stop_that_is_not_ours_changes_nothing(job):
    job.script("""
        save(0)
        os.makedirs(ROOT + "/output/stoker", exist_ok=True)
        with open(ROOT + "/output/stoker/stop.json", "w") as file:
            file.write('{"by": "x", "step": "abc"}')
        note("done")
    """)
    done = job.run("ExplodingTensor")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("[stoker] success\n")
