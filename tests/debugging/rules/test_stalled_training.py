"""StalledTrainingRule: no step came for a long time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.stalled_training import SIGN_INTERVAL, StalledTrainingRule
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE

STEPS = Run().save(7, {"CrossEntropyLoss_output_0": 1.0}).save(8, {"Net_fc.weight": [1.0]})


def test_it_fires_once_when_the_time_is_reached():
    rule = StalledTrainingRule()
    assert rule.check(7, STEPS.at(7)) is None
    assert rule.check_time(1799.9) is None
    found = rule.check_time(1800)
    assert found.message == "no step was saved for 1800 s after step 7 (limit 1800 s)"
    assert found.values == {"seconds_since_last_step": 1800, "threshold": 1800}
    assert rule.check_time(1801) is None


def test_a_step_in_between_starts_anew():
    rule = StalledTrainingRule({"threshold": "10"})
    rule.check(7, STEPS.at(7))
    assert rule.check_time(10)
    rule.check(8, STEPS.at(8))
    assert rule.check_time(9.9) is None
    assert "after step 8" in rule.check_time(10).message


def test_a_training_that_never_begins_is_stalled_too():
    found = StalledTrainingRule({"threshold": "1"}).check_time(1.0)
    assert found.message == "no step was saved for 1 s before the first (limit 1 s)"


def test_it_needs_no_tensor_in_particular():
    rule = StalledTrainingRule()
    assert all(need.is_optional for need in rule.needs())
    assert rule.least_steps() == 0


@pytest.mark.parametrize(
    ("loss", "steps_with_losses"),
    [(nn.MSELoss(), [0]), (lambda output, target: (output - target).abs().mean(), [])],
)
def test_signs_of_life_are_saved_often_and_without_a_loss_too(tmp_path, loss, steps_with_losses):
    rule = StalledTrainingRule()
    inputs = torch.ones(2, 1)
    options = {"loss": loss, "steps": SIGN_INTERVAL + 1, "every": 500}
    run = train(rule, nn.Linear(1, 1), inputs, inputs, folder=tmp_path, **options)
    assert run.steps() == [0, SIGN_INTERVAL]
    assert [step for step in run.steps() if run.at(step).needed("losses")] == steps_with_losses


@REPEATABLE
@given(st.lists(st.floats(0, 40), max_size=30), st.integers(1, 30))
def test_it_fires_once_for_each_pause_that_is_too_long(pauses, threshold):
    rule = StalledTrainingRule({"threshold": str(threshold)})
    fires = 0
    for pause in pauses:  # asked a few times in each
        fires += sum(bool(rule.check_time(pause * part)) for part in (0, 0.5, 1, 1))
        rule.check(7, STEPS.at(7))
    assert fires == sum(pause >= threshold for pause in pauses)


@pytest.mark.parametrize(
    "settings", [{"threshold": "0"}, {"threshold": "1.5"}, {"stop_training_on_fire": "maybe"}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        StalledTrainingRule(settings)


def test_the_settings_of_the_service_are_understood():
    rule = StalledTrainingRule(
        {
            "threshold": "120",
            "stop_training_on_fire": "True",
            "training_job_name_prefix": "smdebug-stalled-demo",
        }
    )
    assert (rule.threshold, rule.stop_training_on_fire) == (120, True)
