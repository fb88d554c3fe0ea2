"""`stoker logs`, `stop` and `status` on jobs of a real platform (process engine)."""

from __future__ import annotations

import json
import re
import time

import pytest

from .conftest import DEADLINE_SECONDS, Cli, wait_for_line

QUICK = "print('one\\ntwo'); print('[metric] step=3 loss=0.25')"
PATIENT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
while True:
    time.sleep(1)
"""
SLOW = PATIENT.replace(
    'print("ready", flush=True)',
    """print("[metric] step=1 loss=2.0 acc=0.75")
print("[metric] step=2 loss=0.5")
print("the last line", flush=True)""",
)


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A platform with one job that has ended."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "quick.py").write_text(QUICK)
    (folder / "patient.py").write_text(PATIENT)
    command = Cli(folder, folder / "platform")
    command.up()
    try:
        done = command.on_platform("train", "quick.py", "--name", "quick")
        assert done.returncode == 0, done.stdout + done.stderr
        yield command
    finally:
        command.down()


def test_logs_are_the_lines_of_the_script_in_their_order(busy):
    lines = busy.on_platform("logs", "quick").stdout.splitlines()
    assert lines.index("two") == lines.index("one") + 1
    shown = busy.on_platform("logs", "quick", "--json").stdout.splitlines()
    assert [json.loads(line)["text"] for line in shown] == lines
    assert {json.loads(line)["host"] for line in shown} == {"algo-1"}


def test_status_lists_jobs_and_shows_one(busy):
    assert "quick  Completed" in busy.on_platform("status").stdout
    listed = json.loads(busy.on_platform("status", "--json").stdout)
    assert "quick" in [job["TrainingJobName"] for job in listed]
    assert "Completed" in busy.on_platform("status", "quick").stdout
    shown = json.loads(busy.on_platform("status", "quick", "--json").stdout)
    assert shown["TrainingJobStatus"] == "Completed"


def row_of(cli, name):
    """The line of a job in the list."""
    return next(line for line in cli.on_platform("status").stdout.splitlines() if name in line)


def test_the_list_has_duration_metric_and_reason(busy):
    head = busy.on_platform("status").stdout.splitlines()[0].split()
    assert head == ["JOB", "STATUS", "CREATED", "DURATION", "METRIC", "REASON"]
    assert re.search(r"quick +Completed +\S+ \S+ +\d+ s +loss 0.25$", row_of(busy, "quick"))
    (busy.folder / "broken.py").write_text("raise ValueError('no coal')")
    done = busy.on_platform("train", "broken.py", "--name", "broken")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ValueError: no coal" in row_of(busy, "broken")


def test_a_running_job_shows_phase_time_metrics_and_its_last_line(busy):
    (busy.folder / "slow.py").write_text(SLOW)
    train = busy.start("train", "slow.py", "--name", "slow", "--root", str(busy.platform))
    wait_for_line(train, "the last line")
    shown = busy.on_platform("status", "slow").stdout
    for text in (
        r"job +slow\n",
        r"status +InProgress \(Training\)\n",
        r"phase +Training for \d+ s: .*Training in progress",
        r"time +\d+ s since it was submitted\n",
        r"metrics +loss 0.5, acc 0.75\n",
        r"log +the last line \(\d+ s ago\)\n",
    ):
        assert re.search(text, shown), (text, shown)
    assert re.search(r"slow +Training .* loss 0.5", row_of(busy, "slow"))
    assert busy.on_platform("stop", "slow", "--follow").returncode == 0
    out, err = train.communicate(timeout=DEADLINE_SECONDS)
    assert re.search(r"reason +StopTrainingJob was called", out), out + err
    assert "StopTrainingJob was called" in row_of(busy, "slow")


def test_stop_ends_a_job_while_its_log_is_followed(busy):
    name = f"patient-{time.time_ns()}"
    train = busy.start("train", "patient.py", "--name", name, "--root", str(busy.platform))
    wait_for_line(train, "ready")
    follow = busy.start("logs", name, "--follow", "--root", str(busy.platform))
    wait_for_line(follow, "ready")
    stop = busy.on_platform("stop", name, "--follow")
    assert (stop.returncode, stop.stdout) == (0, f"stop: {name} is Stopped\n"), stop.stderr
    for process, code in ((train, 1), (follow, 0)):
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == code, out + err


def test_a_job_that_has_ended_cannot_be_stopped(busy):
    done = busy.on_platform("stop", "quick")
    assert done.returncode == 2
    assert "fix: " in done.stderr


@pytest.mark.parametrize("verb", ["logs", "stop", "status"])
def test_a_job_that_is_not_there_is_a_usage_mistake(busy, verb):
    done = busy.on_platform(verb, "nobody")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "the platform has no job nobody\n  fix: stoker status lists the jobs" in done.stderr
    near = busy.on_platform(verb, "quik")
    assert "the platform has no job quik\n  fix: did you mean quick?" in near.stderr


def test_tensors_checkpoints_and_rules_find_those_of_a_job(busy):
    """Objects are files here, so a file stands for what a job saved."""
    words = ("train", "quick.py", "--name", "saved", "--env", "STOKER_DEBUG=collections=losses")
    done = busy.on_platform(*words, "--spot", "after=100h")
    assert done.returncode == 0, done.stdout + done.stderr
    bucket = busy.platform / "s3/sagemaker-us-east-1-000000000000"
    (bucket / "saved/checkpoints").mkdir(parents=True, exist_ok=True)
    (bucket / "saved/checkpoints/note.txt").write_text("kept")
    (bucket / "saved/debug-output").mkdir(exist_ok=True)
    assert "note.txt" in busy.on_platform("checkpoints", "ls", "saved").stdout
    for verb in (("tensors", "ls"), ("rules", "run", "LossNotDecreasing")):
        done = busy.on_platform(*verb, "saved")
        assert done.returncode == 2
        assert f"there are no saved tensors in {bucket}/saved/debug-output" in done.stderr
        done = busy.on_platform(*verb, "quick")
        assert "the job quick was started without a DebugHookConfig" in done.stderr
        done = busy.on_platform(*verb, "quik")
        assert "did you mean quick?" in done.stderr
    done = busy.on_platform("checkpoints", "ls", "quick")
    assert "it keeps no checkpoints\n  fix: stoker train --spot SPEC" in done.stderr


def test_tensorboard_of_a_job_without_curves_says_so(busy):
    done = busy.on_platform("tensorboard", "quick", "--dry-run", "--port", "0")
    assert "note: there is nothing for TensorBoard yet" in done.stdout, done.stderr
