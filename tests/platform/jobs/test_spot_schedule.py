"""STOKER_SPOT: what it may say, and when it interrupts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stoker.platform.jobs.changes import new_job
from stoker.platform.jobs.spot import NEVER, SpotInvalid, make_schedule, read_schedule
from stoker.platform.jobs.state import Attempt


def job(*attempts: Attempt):
    return replace(new_job("j", {}, {}, 0.0), attempts=attempts)


def interrupted(number, began, ended):
    return Attempt(number=number, began=began, ended=ended, cause="interrupted")


def test_after_interrupts_once():
    schedule = make_schedule("after=30s")
    first = Attempt(number=1, began=100.0)
    assert schedule.interruption_at(job(first)) == 130.0
    second = Attempt(number=2, began=200.0)
    assert schedule.interruption_at(job(interrupted(1, 100.0, 131.0), second)) is None


def test_every_interrupts_as_often_as_it_says():
    schedule = make_schedule("every=2m, times=2, warning=no, pause=1.5h")
    assert not schedule.warning
    done = [interrupted(1, 0.0, 120.0), interrupted(2, 130.0, 250.0)]
    last = Attempt(number=3, began=300.0)
    assert schedule.interruption_at(job(done[0], replace(last, number=2))) == 420.0
    assert schedule.interruption_at(job(*done, last)) is None
    assert schedule.restart_at(job(done[0])) == 120.0 + 5400


def test_an_attempt_that_was_lost_otherwise_does_not_count():
    lost = Attempt(number=1, began=0.0, ended=5.0)
    running = Attempt(number=2, began=10.0)
    assert make_schedule("after=30s").interruption_at(job(lost, running)) == 40.0


def test_before_training_nothing_is_interrupted():
    assert make_schedule("after=1s").interruption_at(job(Attempt(number=1))) is None


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_trace_says_when_capacity_goes_and_comes(tmp_path, form):
    file = tmp_path / "trace"
    counts = [0, 1, 1, 0, 2, 0]  # none at first: a job begins when there is capacity
    trace = {"metadata": {"gap_seconds": 60}, "data": counts}
    file.write_text(json.dumps(trace) if form == "json" else "2m 60s\n60 1m\n")
    schedule = make_schedule(f"trace={file},speed=10")
    first = Attempt(number=1, began=1000.0)
    assert schedule.interruption_at(job(first)) == 1012.0
    over = interrupted(1, 1000.0, 1013.0)
    assert schedule.restart_at(job(over)) == 1018.0
    second = Attempt(number=2, began=1019.0)
    assert schedule.interruption_at(job(over, second)) == 1024.0
    third = Attempt(number=3, began=1031.0)
    assert schedule.interruption_at(job(over, interrupted(2, 1019.0, 1025.0), third)) is None


def test_a_machine_that_is_there_when_the_trace_breaks_off_stays(tmp_path):
    file = tmp_path / "trace"
    file.write_text(json.dumps({"metadata": {"gap_seconds": 60}, "data": [1, 0, 1, 1]}))
    schedule = make_schedule(f"trace={file}")
    over, second = interrupted(1, 0.0, 60.0), Attempt(number=2, began=120.0)
    assert schedule.interruption_at(job(Attempt(number=1, began=0.0))) == 60.0
    assert schedule.restart_at(job(over)) == 120.0
    assert schedule.interruption_at(job(over, second)) is None


def test_a_job_of_two_hosts_needs_two_instances_of_the_trace(tmp_path):
    file = tmp_path / "trace"
    file.write_text(json.dumps({"metadata": {"gap_seconds": 60}, "data": [2, 1, 2, 2]}))
    began = job(Attempt(number=1, began=0.0))
    for hosts, lost in ((1, None), (2, 60.0)):
        schedule = read_schedule({"STOKER_SPOT": f"trace={file}"}, {}, instances=hosts)
        assert schedule.interruption_at(began) == lost


def test_a_machine_that_is_replaced_at_once_is_an_interruption(tmp_path):
    file = tmp_path / "trace"
    file.write_text("1m\n1m\n")
    schedule = make_schedule(f"trace={file}")
    over = interrupted(1, 0.0, 61.0)
    assert schedule.restart_at(job(over)) == 61.0
    second = Attempt(number=2, began=62.0)
    assert schedule.interruption_at(job(over, second)) == 120.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is needed"),
        ("after", "'after' is not one of"),
        ("after=soon", "'soon' is not a duration"),
        ("after=-1s", "'-1s' is not a duration"),
        ("after=1s,every=1s", "there are 2"),
        ("after=1s,after=2s", "given twice"),
        ("after=1s,times=2", "times can be used with every"),
        ("every=1s,times=0", "whole number"),
        ("every=1s,warning=maybe", "yes or no"),
        ("after=1s,speed=2", "speed can be used with trace"),
        ("trace=/nowhere", "/nowhere cannot be read"),
        ("trace=/dev/null,speed=0", "above 0"),
        ("trace=/dev/null", "never a machine"),
    ],
)
def test_what_is_not_understood_is_said(text, said):
    with pytest.raises(SpotInvalid, match=said) as caught:
        make_schedule(text)
    assert "after=30s" in caught.value.fix


def test_all_mistakes_are_said_at_once():
    with pytest.raises(SpotInvalid) as caught:
        make_schedule("every=x,pause=y,warning=z")
    assert all(word in caught.value.message for word in ("'x'", "'y'", "'z'"))


def test_the_jobs_own_schedule_wins_over_the_servers():
    server = {"STOKER_SPOT": "after=1s"}
    assert read_schedule({"STOKER_SPOT": "after=2s"}, server).interval_seconds == 2.0
    assert read_schedule({}, server).interval_seconds == 1.0
    assert read_schedule({}, {}) == NEVER
