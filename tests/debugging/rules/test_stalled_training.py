"""StalledTrainingRule: no step came for a long time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.bus.rule_status import RuleStatus
from stoker.contract.job import read_job
from stoker.debugging.evaluate import WatchedRule
from stoker.debugging.evaluate.evaluator import Evaluator
from stoker.debugging.evaluate.signals import EvaluatorSignals
from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import default_config
from stoker.debugging.rules.stalled_training import SIGN_INTERVAL, StalledTrainingRule
from stoker.debugging.specs import make_needs, read_specs
from stoker.debugging.tensors import SavedTensors, mark_end
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE

STEPS = Run().save(7, {"CrossEntropyLoss_output_0": 1.0}).save(8, {"Net_fc.weight": [1.0]})


def test_it_fires_when_the_time_is_reached():
    rule = StalledTrainingRule()
    assert rule.check(7, STEPS.at(7)) is None
    assert rule.check_time(1799.9) is None
    found = rule.check_time(1800)
    assert found.message == "no step was saved for 1800 s after step 7 (limit 1800 s)"
    assert found.values == {"seconds_since_last_step": 1800, "threshold": 1800}


def test_a_step_in_between_starts_over():
    rule = StalledTrainingRule({"threshold": "10"})
    rule.check(7, STEPS.at(7))
    assert "after step 7" in rule.check_time(10).message
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


def run_job(opt_ml, rules: str, train) -> Iterator[RuleStatus]:
    """A training in a thread, and the evaluator beside it until its rule is over."""
    job = read_job(environ={}, root=opt_ml.root)
    folder = opt_ml.root / "output/tensors"
    (spec,) = read_specs(rules)
    hook_is_on = threading.Event()

    def work():
        with attach(default_config(every=500), folder, needs=make_needs([spec])):
            hook_is_on.set()
            train()
        mark_end(str(folder), is_job=False)

    training = threading.Thread(target=work)
    training.start()
    assert hook_is_on.wait(60)
    rule = WatchedRule(spec)
    saved = SavedTensors(folder)
    Evaluator(job, [rule], saved, signals=EvaluatorSignals(), say=lambda text: None).run()
    yield rule.status
    training.join(60)


def train_steps(count: int) -> None:
    model, loss, inputs = nn.Linear(1, 1), nn.MSELoss(), torch.ones(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(count):
        optimizer.zero_grad()
        loss(model(inputs), inputs).backward()
        optimizer.step()


def test_a_training_that_hangs_fires_while_it_hangs(opt_ml):
    is_released = threading.Event()

    def train():
        train_steps(2 * SIGN_INTERVAL + 2)
        is_released.wait(60)  # as for a rank that never comes

    for status in run_job(opt_ml, "StalledTrainingRule(threshold=1)", train):
        assert (status.status, status.step) == ("IssuesFound", 2 * SIGN_INTERVAL)
        is_released.set()


def test_a_training_that_continues_is_healthy(opt_ml):
    (status,) = run_job(
        opt_ml, "StalledTrainingRule(threshold=20)", lambda: train_steps(3 * SIGN_INTERVAL)
    )
    assert (status.status, status.evaluated_steps) == ("NoIssuesFound", 3)


@REPEATABLE
@given(st.lists(st.floats(0, 40), max_size=30), st.integers(1, 30))
def test_it_fires_exactly_in_the_pauses_that_are_too_long(pauses, threshold):
    rule = StalledTrainingRule({"threshold": str(threshold)})
    for pause in pauses:  # asked a few times in each
        asked = [pause * part for part in (0, 0.5, 1)]
        assert [bool(rule.check_time(s)) for s in asked] == [s >= threshold for s in asked]
        rule.check(7, STEPS.at(7))


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
