"""UnchangedTensor: tensors that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.rules.unchanged_tensor import UnchangedTensor
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import ACCUMULATED, Accumulating, train
from tests.debugging.rules.values import REPEATABLE, any_array

ALL = {"collection_names": "all"}
WEIGHTS = {"collection_names": "weights"}


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train_it(rule, model, folder, *, steps=5, **options):
    inputs = torch.randn(16, 4)
    return train(rule, model, inputs, torch.arange(16) % 2, folder=folder, steps=steps, **options)


def test_a_layer_that_the_optimizer_does_not_have_fires_at_its_third_saved_value(tmp_path):
    rule, model = UnchangedTensor(WEIGHTS), make_model()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)  # the first layer was forgotten
    found = judge(rule, train_it(rule, model, tmp_path, optimizer=optimizer))
    assert list(found) == [2, 3, 4]
    assert found[2].tensor == "Sequential_0.weight"
    assert found[2].values["unchanged"] == 1


def test_a_model_that_is_trained_whole_is_healthy(tmp_path):
    rule = UnchangedTensor(WEIGHTS)
    assert fired(rule, train_it(rule, make_model(), tmp_path, lr=0.1)) == []


def test_frozen_parameters_are_left_out_and_listed(tmp_path):
    rule, model = UnchangedTensor(WEIGHTS), make_model()
    model[0].requires_grad_(False)
    assert fired(rule, train_it(rule, model, tmp_path / "healthy", lr=0.1)) == []
    rule = UnchangedTensor(WEIGHTS)
    found = judge(rule, train_it(rule, model, tmp_path / "sick", lr=0.0))
    assert found[2].tensor == "Sequential_2.weight"
    assert "left out because frozen: Sequential_0.weight" in found[2].hint


def test_weights_are_not_expected_to_change_while_the_model_evaluates(tmp_path):
    rule = UnchangedTensor(WEIGHTS)
    run = train_it(rule, make_model(), tmp_path, lr=0.1, evaluate_every=2)
    assert len(run.steps("EVAL")) == 6
    assert fired(rule, run) == []


def test_a_constant_at_steps_0_1_2_fires_at_2_and_not_before():
    # The tests of 2019.
    run = Run()
    for step in range(3):
        run.save(step, {"a": np.ones((2, 2))})
    assert fired(UnchangedTensor(ALL), run, end=2) == []
    assert fired(UnchangedTensor(ALL), run) == [2]


def test_steps_at_which_a_tensor_was_not_saved_do_not_matter():
    run = Run()
    for step in range(0, 12, 4):
        run.save(step, {"a": [1.0]}).save(step + 1, {"b": [float(step)]})
    assert fired(UnchangedTensor(ALL), run) == [8]


def test_a_change_starts_the_count_again():
    run = Run()
    for step, value in enumerate([1.0, 1.0, 2.0, 2.0, 2.0, 2.0]):
        run.save(step, {"a": [value]})
    assert fired(UnchangedTensor(ALL), run) == [4, 5]
    assert fired(UnchangedTensor({**ALL, "num_steps": "2"}), run) == [1, 3, 4, 5]


def test_a_slow_drift_is_compared_with_the_newest_value():
    run = Run()
    for step in range(3):
        run.save(step, {"a": [1.0 + 0.9e-5 * step]})
    assert fired(UnchangedTensor(ALL), run) == []
    assert fired(UnchangedTensor({**ALL, "rtol": "2e-5"}), run) == [2]


@pytest.mark.parametrize(("atol", "fires"), [("0.9e-3", []), ("2.1e-3", [2])])
def test_a_small_change_is_none_within_the_absolute_tolerance(atol, fires):
    run = Run()
    for step in range(3):
        run.save(step, {"a": [1e-3 * step]})  # too near zero for a relative one
    assert fired(UnchangedTensor({**ALL, "atol": atol}), run) == fires


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_below_zero_is_refused(name):
    with pytest.raises(RuleInvalid, match=f"{name} .*smallest value is 0"):
        UnchangedTensor({**ALL, name: "-1e-9"})
    UnchangedTensor({**ALL, name: "0"})


def test_with_accumulation_weights_are_saved_at_a_multiple_of_it(tmp_path):
    for every, num_steps, fires in (
        *((1, 3, True), (ACCUMULATED, 3, False)),
        *((1, ACCUMULATED, True), (1, ACCUMULATED + 1, False)),
    ):
        rule = UnchangedTensor({**WEIGHTS, "num_steps": str(num_steps)})
        model = make_model()
        optimizer = Accumulating(model.parameters(), lr=0.1)
        folder = tmp_path / f"{every}_{num_steps}"
        run = train_it(rule, model, folder, optimizer=optimizer, every=every, steps=17)
        assert bool(fired(rule, run)) is fires


def test_nan_equals_nan_only_if_asked_to():
    run = Run()
    for step in range(3):
        run.save(step, {"a": [np.nan, 1.0]})
    assert fired(UnchangedTensor(ALL), run) == []
    assert fired(UnchangedTensor({**ALL, "equal_nan": "True"}), run) == [2]


def test_another_shape_is_a_change_and_no_elements_do_not_count():
    run = Run()
    for step in range(3):
        run.save(step, {"a": np.ones(step + 1), "b": np.ones((0, 2))})
    assert fired(UnchangedTensor(ALL), run) == []


def test_a_change_at_the_end_of_a_large_tensor_is_seen():
    run, value = Run(), np.zeros(200_001, np.float32)
    for step in range(3):
        value[-1] = step
        run.save(step, {"a": value})
    assert fired(UnchangedTensor(ALL), run) == []


def test_each_worker_has_its_own_values():
    run = Run()
    for step in range(3):
        run.save(step, {"a": [float(step)]}).save(step, {"a": [1.0]}, worker="worker_1")
    assert judge(UnchangedTensor(ALL), run)[2].values["unchanged"] == 1


def test_it_needs_as_many_steps_as_it_compares():
    assert UnchangedTensor({**ALL, "num_steps": "7"}).least_steps() == 7
    with pytest.raises(RuleInvalid, match="smallest value is 2"):
        UnchangedTensor({**ALL, "num_steps": "1"})
    with pytest.raises(RuleInvalid, match="neither collection_names nor tensor_regex"):
        UnchangedTensor()


def test_a_frozen_bias_is_known_by_its_description():
    frozen = Description(name="Net_shift", kind="bias", is_frozen=True)
    run = Run(descriptions=[frozen])
    for step in range(3):
        run.save(step, {"Net_shift": [1.0]})
    assert fired(UnchangedTensor(ALL), run) == []


@REPEATABLE
@given(
    st.lists(any_array(st.sampled_from([0.0, 1.0, 1.00001, np.nan, np.inf]), (2,)), max_size=6),
    st.integers(2, 4),
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "rtol": st.sampled_from([0.0, 1e-6, 0.5, 2.0]),
            "atol": st.sampled_from([0.0, 1e-6, 1.0, 3.0]),
        },
    ),
)
def test_it_fires_exactly_when_the_last_values_are_close(values, num_steps, equal_nan, near):
    run = Run()
    for step, value in enumerate(values):
        run.save(step, {"a": value})
    expected = [
        step
        for step in range(num_steps - 1, len(values))
        if all(
            np.allclose(values[step - back], values[step], equal_nan=equal_nan, **near)
            for back in range(1, num_steps)
        )
    ]
    settings = {**ALL, "num_steps": str(num_steps), "equal_nan": str(equal_nan)}
    settings |= {name: repr(tolerance) for name, tolerance in near.items()}
    assert fired(UnchangedTensor(settings), run) == expected
