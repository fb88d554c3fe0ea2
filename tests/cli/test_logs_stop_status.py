"""`stoker logs`, `stop` and `status` on jobs of a real platform (process engine)."""

from __future__ import annotations

import json
import time

import pytest

from .conftest import DEADLINE_SECONDS, Cli, wait_for_line

QUICK = "print('one\\ntwo')"
PATIENT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
while True:
    time.sleep(1)
"""


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
    assert "fix: `stoker status` lists the jobs" in done.stderr
