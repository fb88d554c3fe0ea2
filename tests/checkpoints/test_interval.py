"""How often to save."""

from __future__ import annotations

import pytest

from stoker.checkpoints.interval import Schedule, young_interval


def test_the_interval_is_youngs():
    assert young_interval(30, 2 * 3600) == pytest.approx(657, abs=1)


def test_auto_learns_from_a_save_and_says_so_once():
    schedule = Schedule(minutes="auto", mean_hours=2)
    told = schedule.learn(30)
    assert told.startswith(
        "saving every 11.0 min: a save takes 30.0 s, and one interruption in 2 h"
    )
    assert schedule.learn(31) == ""
    assert schedule.interval_seconds == young_interval(31, 7200)
    assert schedule.learn(300) != ""


def test_auto_stays_within_reason():
    schedule = Schedule(minutes="auto")
    schedule.learn(0.0001)
    assert schedule.interval_seconds == 30
    schedule.learn(10**6)
    assert schedule.interval_seconds == 3600


def test_steps_and_minutes_are_kept_as_asked():
    schedule = Schedule(steps=5, minutes=2)
    assert [step for step in range(1, 11) if schedule.is_due_at(step)] == [5, 10]
    assert schedule.interval_seconds == 120
    assert schedule.learn(1000) == ""
    assert not schedule.is_time()


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"minutes": -1}, {}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match="must be positive"):
        Schedule(**wrong)
