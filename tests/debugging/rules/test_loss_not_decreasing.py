"""LossNotDecreasing: a loss that stands still or rises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.loss_not_decreasing import LossNotDecreasing
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE

LOSS = "CrossEntropyLoss_output_0"


def run_of(losses, *, every: int = 1, mode="TRAIN") -> Run:
    run = Run()
    for number, loss in enumerate(losses):
        run.save(number * every, {LOSS: loss}, mode=mode)
    return run


def train_with(rule, folder, *, lr: float, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    inputs = torch.randn(64, 4)
    labels = (inputs[:, 0] > 0).long()
    return train(rule, model, inputs, labels, folder=folder, lr=lr, steps=31, **options)


def test_a_learning_rate_of_zero_fires_at_every_comparison(tmp_path):
    rule = LossNotDecreasing()
    found = judge(rule, train_with(rule, tmp_path, lr=0.0))
    assert list(found) == [10, 20, 30]  # the first loss that is ten steps back is that of step 0
    assert found[10].values["compared_with_step"] == 0
    assert found[10].values["fall_percent"] == 0


def test_where_no_two_losses_could_be_compared_there_were_too_few_steps():
    rule = LossNotDecreasing()
    run = Run().save(0, {LOSS: 2.0}).save(500, {LOSS: 2.0}, mode="EVAL")
    assert fired(rule, run) == []
    assert rule.least_steps() == 3
    near = LossNotDecreasing({"num_steps": "50"})
    assert fired(near, run_of([2.0] * 50)) == []
    assert near.least_steps() == 51
    assert fired(near, run_of([2.0] * 51)) == [50]
    assert near.least_steps() == 2


def test_a_learning_rate_that_diverges_fires_as_the_loss_rises(tmp_path):
    rule = LossNotDecreasing()
    finding = judge(rule, train_with(rule, tmp_path, lr=1e3))[10]
    assert finding.values["fall_percent"] < -5
    assert "rose by" in finding.message


def test_a_learning_rate_that_fits_is_healthy(tmp_path):
    rule = LossNotDecreasing()
    assert fired(rule, train_with(rule, tmp_path, lr=0.1)) == []


def test_evaluations_are_healthy_although_a_loss_stays_the_same_within_each(tmp_path):
    rule = LossNotDecreasing({"num_steps": "2"})
    run = train_with(rule, tmp_path, lr=0.1, evaluate_every=5)
    assert len(run.steps("EVAL")) == 18
    assert fired(rule, run) == []


def test_the_losses_of_2019():
    # Saved every 4 steps; at 12 the loss is that of step 0, at 16 it is lower than at 4.
    run = run_of([0.3, 0.33, 0.31, 0.30, 0.28], every=4)
    assert fired(LossNotDecreasing({"diff_percent": "0"}), run) == [12]
    assert fired(LossNotDecreasing({"diff_percent": "0"}), run, start=13) == []


def test_the_worked_example_of_the_guide():
    # Saved every 3 steps: at 21 the loss is compared with that at 9, and the next time at 33.
    found = judge(LossNotDecreasing(), run_of([1.0] * 20, every=3), start=21)
    assert {step: finding.values["compared_with_step"] for step, finding in found.items()} == {
        21: 9,
        33: 21,
        45: 33,
        57: 45,
    }


@pytest.mark.parametrize(
    ("earlier", "later", "fires"),
    [
        (1.0, 1.0, True),  # flat
        (1.0, 0.9995, True),  # a fall of 0.05 %
        (1000.0, 999.0, False),  # exactly 0.1 %
        (1.0, 0.5, False),
        (1.0, 1.01, False),  # a rise of 1 % is noise
        (100.0, 105.0, False),  # exactly 5 %
        (1.0, 1.06, True),
        (-1.0, -1.5, False),  # below zero a loss falls just the same
        (-1.0, -0.9, True),
        (0.0, 0.0, True),
        (0.0, 1e-9, True),
        (0.0, -1.0, False),
    ],
)
def test_flat_fires_and_a_small_rise_does_not(earlier, later, fires):
    run = Run().save(0, {LOSS: earlier}).save(10, {LOSS: later})
    assert fired(LossNotDecreasing(), run) == ([10] if fires else [])


@pytest.mark.parametrize(
    ("percent", "later", "fires"),
    [("0", 1.001, True), ("20", 1.2, False), ("20", 1.201, True), ("99.9", 1.99, False)],
)
def test_how_much_of_a_rise_is_noise_can_be_set(percent, later, fires):
    rule = LossNotDecreasing({"increase_threshold_percent": percent})
    run = Run().save(0, {LOSS: 1.0}).save(10, {LOSS: later})
    assert fired(rule, run) == ([10] if fires else [])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_finite_fires_at_once(value):
    run = run_of([1.0, value, 0.5])
    found = judge(LossNotDecreasing(), run)
    assert list(found) == [1]
    assert found[1].tensor == LOSS


def test_two_losses_that_overflow_together_are_not_finite_either():
    run = Run().save(0, {"ALoss_output_0": 1.7e308, "BLoss_output_0": 1.7e308})
    assert judge(LossNotDecreasing(), run)[0].tensor == "ALoss_output_0"


def test_several_losses_of_a_step_are_averaged_over_workers_and_names():
    run = Run()
    for step, losses in ((0, (1.0, 3.0)), (10, (2.0, 2.0))):
        run.save(step, {LOSS: losses[0]}).save(step, {LOSS: losses[1]}, worker="worker_1")
    assert fired(LossNotDecreasing(), run) == [10]  # 2 against 2
    vector = Run().save(0, {LOSS: [1.0, 3.0]}).save(10, {LOSS: [0.5, 0.5]})
    assert fired(LossNotDecreasing(), vector) == []


def test_training_and_evaluation_are_compared_each_with_itself():
    run = Run()
    for step in range(0, 40, 2):
        run.save(step, {LOSS: 1.0 / (step + 1)}).save(
            step + 1, {LOSS: 5.0 - step / 10}, mode="EVAL"
        )
    assert fired(LossNotDecreasing(), run) == []
    # As one series, an evaluation follows a training: the loss seems to jump up.
    assert fired(LossNotDecreasing({"mode": "GLOBAL", "num_steps": "1"}), run)[0] == 1


def test_only_the_mode_that_was_asked_for_counts():
    run = Run()
    for step in range(0, 40, 2):
        run.save(step, {LOSS: 1.0}).save(step + 1, {LOSS: 1.0 / (step + 1)}, mode="EVAL")
    assert fired(LossNotDecreasing({"mode": "EVAL"}), run) == []
    assert fired(LossNotDecreasing({"mode": "TRAIN"}), run)[0] == 10
    with pytest.raises(RuleInvalid, match="EVAL, TRAIN, GLOBAL"):
        LossNotDecreasing({"mode": "PREDICT"})


def test_two_losses_of_one_evaluation_are_not_compared():
    run = Run().save(0, {LOSS: 1.0})
    for step in range(1, 31):
        run.save(step, {LOSS: 0.5}, mode="EVAL")
    assert fired(LossNotDecreasing(), run) == []
    run.save(31, {LOSS: 0.9}).save(32, {LOSS: 0.5}, mode="EVAL")
    found = judge(LossNotDecreasing(), run)
    assert list(found) == [32]
    assert found[32].values["compared_with_step"] == 22


def test_a_long_evaluation_is_not_read_again_at_each_of_its_steps():
    run = Run().save(0, {LOSS: 1.0}, mode="EVAL").save(1, {LOSS: 1.0})
    for step in range(2, 500):
        run.save(step, {LOSS: 0.5}, mode="EVAL")
    asked = []
    real = run.at
    run.at = lambda step: asked.append(step) or real(step)
    for step in range(2, 500):
        assert LossNotDecreasing({"mode": "EVAL"}).check(step, real(step)) is None
    assert len(asked) < 500 * 12


def test_steps_without_a_loss_are_passed_over():
    run = run_of([1.0, 0.9, 0.8], every=5)
    run.save(12, {"Net_fc.weight": [1.0]}).save(17, {"Net_fc.weight": [1.0]})
    run.save(22, {LOSS: 0.8})
    assert judge(LossNotDecreasing(), run)[22].values["compared_with_step"] == 10


def test_other_tensors_next_to_or_instead_of_losses():
    run = Run(collections={"mine": ["cost"]})
    for step, cost in ((0, 1.0), (10, 1.0)):
        run.save(step, {"cost": cost, LOSS: 1.0 - step / 20})
    assert fired(LossNotDecreasing(), run) == []
    without = {"use_losses_collection": "False"}
    assert fired(LossNotDecreasing({**without, "tensor_regex": "^cost$"}), run) == [10]
    assert fired(LossNotDecreasing({**without, "collection_names": "mine"}), run) == [10]
    assert fired(LossNotDecreasing({"tensor_regex": "^cost$"}), run) == []  # 0.75 against 1


def test_the_finding_is_one_line_with_both_losses():
    finding = judge(LossNotDecreasing(), run_of([2.0, 2.2], every=10))[10]
    assert finding.message == (
        "the loss rose by 10 % from 2 at step 0 to 2.2 at step 10, more than 5 %"
    )
    finding = judge(LossNotDecreasing(), run_of([2.0, 1.999], every=10))[10]
    assert finding.message == (
        "the loss fell by 0.05 % from 2 at step 0 to 1.999 at step 10, it has to fall by 0.1 %"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"diff_percent": "100"}, "below 100"),
        ({"diff_percent": "-0.1"}, "smallest value is 0"),
        ({"increase_threshold_percent": "100"}, "below 100"),
        ({"increase_threshold_percent": "-1"}, "smallest value is 0"),
        ({"num_steps": "0"}, "smallest value is 1"),
        ({"use_losses_collection": "False"}, "no losses to look at"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, reason):
    with pytest.raises(RuleInvalid, match=reason):
        LossNotDecreasing(settings)


@REPEATABLE
@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(-10, 10)), max_size=20),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.1, 20.0]),
    st.sampled_from([0.0, 5.0, 60.0]),
)
def test_it_compares_as_the_contract_says(history, num_steps, diff, rise):
    steps = np.cumsum([gap for gap, _ in history]).tolist()
    losses = dict(zip(steps, (loss for _, loss in history), strict=True))
    expected, last_check = [], -np.inf
    for step, loss in losses.items():
        earlier = [other for other in losses if other <= step - num_steps]
        if not earlier or step < last_check + num_steps:
            continue
        last_check, before = step, losses[max(earlier)]
        if before == 0:
            fell = np.inf if loss < 0 else 0.0 if loss == 0 else -np.inf
        else:
            fell = (before - loss) / abs(before) * 100
        if fell == 0 or 0 < fell < diff or (fell < 0 and -fell > rise):
            expected.append(step)
    run = Run()
    for step, loss in losses.items():
        run.save(step, {LOSS: loss})
    percents = {"diff_percent": str(diff), "increase_threshold_percent": str(rise)}
    rule = LossNotDecreasing({"num_steps": str(num_steps), **percents})
    assert fired(rule, run) == expected
