"""The store keeps every field of a job, and a kill -9 in the midst of writing harms nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import stoker
from stoker.platform.jobs.changes import (
    ask_to_stop,
    begin_attempt,
    change_attempt,
    completed,
    conclude,
    end,
    failed,
    make_verdict,
    new_job,
    show,
    stopped,
)
from stoker.platform.jobs.state import HostExit, Metric
from stoker.platform.jobs.store import JobQuery, NameTaken, Store, UnknownJob

KILLED_WRITER = """
import sys
from pathlib import Path
from dataclasses import replace
from stoker.platform.jobs.changes import new_job
from stoker.platform.jobs.store import Store
store = Store(Path(sys.argv[1]))
store.add(new_job("j", {}, {}, 0.0))
number = 0
while True:
    number += 1
    store.change("j", lambda record: replace(record, retries=number))
    print(number, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "platform.sqlite")
    yield store
    store.close()


def full_job():
    job = new_job("j", {"HyperParameters": {"a": "ü\n"}}, {"k": "v"}, 1.0)
    job = change_attempt(
        begin_attempt(job, 2.0), 3.0, began=3.0, lines_before={"algo-1": 4}, cause="asked"
    )
    job = conclude(ask_to_stop(job, 4.0), stopped("asked"), "cleaning", 5.0)
    return replace(job, metrics=(Metric(name="loss", value=0.5, timestamp=2.0),))


def test_a_job_comes_back_as_it_was(store):
    store.add(full_job())
    assert store.read("j") == full_job()


def test_a_name_is_taken_once_and_for_ever(store):
    store.add(full_job())
    with pytest.raises(NameTaken):
        store.add(new_job("j", {}, {}, 9.0))
    with pytest.raises(UnknownJob):
        store.read("k")


def test_only_unfinished_jobs_are_adopted(store):
    store.add(new_job("waits", {}, {}, 2.0))
    store.add(end(conclude(new_job("done", {}, {}, 1.0), completed(), "cleaning", 3.0), 4.0))
    assert [record.name for record in store.unfinished()] == ["waits"]
    assert [record.name for record in store.page(JobQuery(limit=9))] == ["done", "waits"]


def test_what_was_committed_survives_a_kill(tmp_path):
    file = tmp_path / "platform.sqlite"
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(file)],
        env={**os.environ, "PYTHONPATH": str(Path(stoker.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen = [int(writer.stdout.readline()) for _ in range(20)]
    os.kill(writer.pid, signal.SIGKILL)
    seen += [int(line) for line in writer.communicate()[0].splitlines()]
    store = Store(file)
    assert store.read("j").retries in (seen[-1], seen[-1] + 1)
    store.close()


def test_the_same_status_again_only_changes_its_message():
    job = show(new_job("j", {}, {}, 1.0), "Starting", "more", 2.0)
    assert [(t.status, t.message, t.start) for t in job.transitions] == [("Starting", "more", 1.0)]
    job = show(job, "Training", "now", 3.0)
    assert [t.end for t in job.transitions] == [3.0, None]


def training_job(**fields):
    return change_attempt(begin_attempt(new_job("j", {}, {}, 0.0), 1.0), 1.0, began=1.0, **fields)


@pytest.mark.parametrize(
    ("exits", "texts", "reason"),
    [
        ({"algo-1": HostExit(code=1)}, {}, "AlgorithmError: , exit code: 1"),
        ({"algo-1": HostExit(code=3)}, {"algo-1": "why"}, "AlgorithmError: why, exit code: 3"),
        (
            {"algo-1": HostExit(code=143), "algo-2": HostExit(code=5)},
            {"algo-2": "it"},
            "AlgorithmError: it, exit code: 5",
        ),
        (
            {"algo-1": HostExit(code=1), "algo-2": HostExit(code=7)},
            {"algo-2": "it"},
            "AlgorithmError: it, exit code: 7",
        ),
    ],
)
def test_the_reason_names_the_host_that_failed_first(exits, texts, reason):
    verdict = make_verdict(training_job(cause="host_failed"), exits, texts)
    assert (verdict.status, verdict.failure_reason) == ("Failed", reason)


def test_out_of_memory_is_said_with_the_fix():
    exits = {"algo-1": HostExit(code=143), "algo-2": HostExit(code=137, oom_killed=True)}
    reason = make_verdict(training_job(), exits, {}).failure_reason
    assert "out of memory" in reason
    assert reason.endswith(", exit code: 137")


def test_a_reason_fits_the_services_limit():
    verdict = make_verdict(training_job(), {"a": HostExit(code=1)}, {"a": "x" * 5000})
    assert len(verdict.failure_reason) == 1024
    assert verdict.failure_reason.endswith(", exit code: 1")
    assert (
        len(conclude(training_job(), failed("y" * 2000), "cleaning", 2.0).verdict.failure_reason)
        == 1024
    )


@pytest.mark.parametrize(
    ("cause", "secondary"),
    [("max_runtime", "MaxRuntimeExceeded"), ("max_wait", "MaxWaitTimeExceeded")],
)
def test_a_limit_is_not_a_failure_whatever_the_exit_code(cause, secondary):
    verdict = make_verdict(training_job(cause=cause), {"a": HostExit(code=137)}, {})
    assert (verdict.status, verdict.secondary) == ("Stopped", secondary)
