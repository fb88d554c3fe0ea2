"""WeightUpdateRatio: steps that are too large or too small for the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.weight_update_ratio import WeightUpdateRatio, update_ratio
from stoker.errors import RuleInvalid, TensorsUnreadable
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import ACCUMULATED, Accumulating, train
from tests.debugging.rules.values import REPEATABLE, any_array

NAME = "Net_fc.weight"


def train_with(rule, folder, *, lr, model=None, **options):
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    inputs = torch.randn(16, 4)
    return train(
        rule, model, inputs, torch.arange(16) % 2, folder=folder, lr=lr, steps=4, **options
    )


def run_of(values, *, every: int = 1) -> Run:
    run = Run()
    for number, value in enumerate(values):
        run.save(number * every, {NAME: value})
    return run


@pytest.mark.parametrize("lr", [1e-10, 1e-11, 1e-12, 1e-13])
def test_the_small_learning_rates_of_2019_fire_as_soon_as_there_are_two_steps(tmp_path, lr):
    rule = WeightUpdateRatio()
    found = judge(rule, train_with(rule, tmp_path, lr=lr))
    assert list(found) == [1, 2, 3]
    assert found[1].values["ratio"] < 1e-8
    assert found[1].values["too_small"] == 2


@pytest.mark.parametrize("lr", [1e-3, 1e-4])
def test_the_usual_learning_rates_of_2019_are_healthy(tmp_path, lr):
    rule = WeightUpdateRatio()
    assert fired(rule, train_with(rule, tmp_path, lr=lr)) == []


def test_a_learning_rate_of_1e4_fires_above_the_large_threshold(tmp_path):
    rule = WeightUpdateRatio()
    finding = judge(rule, train_with(rule, tmp_path, lr=1e4))[1]
    assert finding.values["ratio"] > 10
    assert "above 10" in finding.message


def test_frozen_weights_are_left_out_and_listed(tmp_path):
    layers = [nn.Linear(4, 4) for _ in range(5)]
    model = nn.Sequential(*layers, nn.Linear(4, 2))
    for layer in layers:
        layer.requires_grad_(False)
    healthy = WeightUpdateRatio()
    assert fired(healthy, train_with(healthy, tmp_path / "a", lr=1e-3, model=model)) == []
    sick = WeightUpdateRatio()
    finding = judge(sick, train_with(sick, tmp_path / "b", lr=1e-13, model=model))[1]
    assert finding.values["too_small"] == 1
    assert finding.hint.endswith(
        "left out because frozen: Sequential_0.weight, Sequential_1.weight, Sequential_2.weight"
        " and 2 more"
    )


def test_an_evaluation_in_between_is_not_a_step_without_a_change(tmp_path):
    rule = WeightUpdateRatio()
    run = train_with(rule, tmp_path, lr=1e-3, evaluate_every=2)
    assert len(run.steps("EVAL")) == 6
    assert fired(rule, run) == []


@pytest.mark.parametrize(
    ("every", "window", "fires"),
    [(1, {}, True), (ACCUMULATED, {}, False), (1, {"num_steps": str(ACCUMULATED)}, True)],
)
def test_with_accumulation_weights_are_saved_at_a_multiple_of_it(tmp_path, every, window, fires):
    torch.manual_seed(0)
    rule, model = WeightUpdateRatio(window), nn.Linear(4, 2)
    options = {"optimizer": Accumulating(model.parameters(), lr=0.1), "steps": 17}
    inputs, labels = torch.randn(16, 4), torch.arange(16) % 2
    run = train(rule, model, inputs, labels, folder=tmp_path, every=every, **options)
    assert bool(fired(rule, run)) is fires


def test_a_window_continues_with_the_next_step_where_its_oldest_cannot_be_read():
    run = run_of([[1.0]] * 4)
    real = run.at

    def at(step):
        if step == 0:
            raise TensorsUnreadable("damaged")
        return real(step)

    run.at = at
    rule = WeightUpdateRatio({"num_steps": "3"})
    found = {step: rule.check(step, real(step)) for step in range(4)}
    assert found[1] is None  # there is nothing else to compare with
    assert found[2].values["compared_with_step"] == found[3].values["compared_with_step"] == 1


def test_the_step_before_is_the_saved_one_before():
    run = Run().save(0, {NAME: [1.0]}).save(3, {"other": [1.0]}).save(5, {NAME: [1.0]})
    finding = judge(WeightUpdateRatio(), run)[5]
    assert finding.values["compared_with_step"] == 0
    assert finding.message == (
        "Net_fc.weight changed by a ratio of 0 from step 0 to step 5, below 1e-08 "
        "(1 of 1 weights are out of bounds)"
    )


@pytest.mark.parametrize(("num_steps", "compared"), [("2", None), ("3", 6), ("5", 6), ("6", 3)])
def test_num_steps_names_the_oldest_step_of_a_window(num_steps, compared):
    run = run_of([[1.0]] * 4, every=3)  # saved at 0, 3, 6 and 9
    found = judge(WeightUpdateRatio({"num_steps": num_steps}), run)
    assert (found[9].values["compared_with_step"] if found else None) == compared


def test_where_no_two_steps_lie_within_the_window_there_were_too_few():
    rule = WeightUpdateRatio({"num_steps": "2"})
    assert fired(rule, run_of([1.0, 1.0, 1.0], every=3)) == []
    assert rule.least_steps() == 4
    assert fired(WeightUpdateRatio({"num_steps": "3"}), run_of([1.0, 1.0], every=3)) == [3]


def test_a_window_does_not_remember_more_steps_than_it_needs():
    rule = WeightUpdateRatio({"num_steps": "4"})
    judge(rule, run_of([[float(n)] for n in range(100)]))
    assert len(rule._steps) == 5


@pytest.mark.parametrize(
    ("before", "after", "fires"),
    [(2.0, 22.0, []), (2.0, 22.1, [1]), (1.0, 1.5, []), (1.0, 1.4999, [1])],
)
def test_the_thresholds_themselves_are_healthy(before, after, fires):
    rule = WeightUpdateRatio({"small_threshold": "0.5", "epsilon": "0"})
    assert fired(rule, run_of([[before], [after]])) == fires


def test_epsilon_keeps_weights_of_zero_out_of_a_division_by_zero():
    finding = judge(WeightUpdateRatio({"epsilon": "0.5"}), run_of([[0.0], [6.0]]))[1]
    assert finding.values["ratio"] == 12
    assert fired(WeightUpdateRatio({"epsilon": "0"}), run_of([[0.0], [1.0]])) == [1]
    assert fired(WeightUpdateRatio({"epsilon": "0"}), run_of([[0.0], [0.0]])) == []  # 0 / 0


def test_weights_that_are_new_gone_empty_or_of_another_shape_are_not_compared():
    run = Run().save(0, {"Net_a.weight": [1.0, 2.0], "Net_gone.weight": [1.0]})
    run.save(1, {"Net_a.weight": [1.0], "Net_new.weight": [1.0], "Net_e.weight": np.ones(0)})
    run.save(2, {"Net_a.weight": [1.1], "Net_new.weight": [1.1], "Net_e.weight": np.ones(0)})
    assert fired(WeightUpdateRatio(), run) == []


def test_complex_weights_have_norms_too():
    run = run_of([[3.0 + 4.0j], [3.0 + 4.5j]])
    assert judge(WeightUpdateRatio({"large_threshold": "0.09"}), run)[1].values["ratio"] == (
        pytest.approx(0.1)
    )


def test_nan_is_the_business_of_another_rule():
    assert fired(WeightUpdateRatio(), run_of([[1.0], [np.nan], [1.0]])) == []


def test_thresholds_that_leave_nothing_healthy_are_refused():
    with pytest.raises(RuleInvalid, match="would always fire"):
        WeightUpdateRatio({"small_threshold": "2", "large_threshold": "1"})
    with pytest.raises(RuleInvalid, match="smallest value is 1"):
        WeightUpdateRatio({"num_steps": "0"})


def test_a_tensor_of_many_blocks_has_the_norm_of_the_whole():
    generator = np.random.default_rng(0)
    before = generator.normal(size=(300, 1000)).astype(np.float32)
    after = before + generator.normal(scale=1e-4, size=before.shape).astype(np.float32)
    old, new = before.astype(np.float64), after.astype(np.float64)
    expected = np.linalg.norm(new - old) / np.linalg.norm(old)
    assert update_ratio(after, before, 0.0) == pytest.approx(expected, rel=1e-12)


@REPEATABLE
@given(
    st.lists(any_array(shapes=(3,)), max_size=4),
    st.none() | st.integers(1, 3),
    st.sampled_from([10.0, 0.5, 1e30]),
    st.sampled_from([1e-8, 0.0, 0.4]),
    st.sampled_from([1e-9, 0.0, 1e3]),
)
def test_it_fires_exactly_when_a_ratio_is_out_of_bounds(values, num_steps, large, small, epsilon):
    expected = []
    for step in range(1, len(values)):
        earlier = values[max(0, step - (num_steps or 1))].astype(np.float64)
        with np.errstate(all="ignore"):
            change = np.sqrt(np.square(values[step] - earlier).sum())
            ratio = change / (np.sqrt(np.square(earlier).sum()) + epsilon)
        if ratio > large or ratio < small:
            expected.append(step)
    settings = {"large_threshold": repr(large), "small_threshold": repr(small)}
    settings |= {"epsilon": repr(epsilon)}
    settings |= {"num_steps": str(num_steps)} if num_steps else {}
    rule = WeightUpdateRatio(settings)
    assert fired(rule, run_of(values)) == expected
