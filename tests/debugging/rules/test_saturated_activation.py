"""SaturatedActivation: Tanh and Sigmoid far out where they are flat."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.rules.saturated_activation import SaturatedActivation
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import FLOATS, REPEATABLE, any_array

NAME = "act_input_0"


def run_of(*inputs, module_class="Tanh", name=NAME) -> Run:
    run = Run(descriptions=[Description(name=name, kind="input", module_class=module_class)])
    for step, value in enumerate(inputs):
        run.save(step, {name: np.array(value, np.float32)})
    return run


def train_with(rule, folder, activation: type[nn.Module], *, scale: float):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), activation(), nn.Linear(32, 2))
    inputs = scale * torch.rand(128, 8)  # never negative, like pixels
    return train(rule, model, inputs, torch.arange(128) % 2, folder=folder, steps=3, lr=1e-3)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.Sigmoid])
def test_inputs_that_were_not_normalized_saturate_from_step_0(tmp_path, activation):
    rule = SaturatedActivation()
    found = judge(rule, train_with(rule, tmp_path, activation, scale=1e5))
    assert list(found) == [0, 1, 2]
    assert found[0].tensor == "1_input_0"
    assert found[2].values["observations"] == 3 * 128


@pytest.mark.parametrize("activation", [nn.Tanh, nn.Sigmoid])
def test_normalized_inputs_are_healthy(tmp_path, activation):
    rule = SaturatedActivation()
    assert fired(rule, train_with(rule, tmp_path, activation, scale=1.0)) == []


def test_the_limits_are_where_float32_has_a_gradient_of_about_1e_7():
    rule = SaturatedActivation()
    x = torch.tensor(
        [rule.threshold_tanh_min, rule.threshold_tanh_max], dtype=torch.float64, requires_grad=True
    )
    torch.tanh(x).sum().backward()
    assert torch.allclose(x.grad, torch.full((2,), 2.2e-8, dtype=torch.float64), rtol=0.02)


@pytest.mark.parametrize(
    ("module_class", "value", "fires"),
    [
        ("Tanh", 9.4998, []),
        ("Tanh", 9.4999, [0]),  # a node is active inside, not at, its limits
        ("Tanh", -9.4998, []),
        ("Tanh", -9.4999, [0]),
        ("Sigmoid", 16.99998, []),
        ("Sigmoid", 17.0, [0]),
        ("Sigmoid", -22.99, []),
        ("Sigmoid", -23.0, [0]),
    ],
)
def test_each_activation_has_limits_of_its_own(module_class, value, fires):
    run = Run(descriptions=[Description(name=NAME, kind="input", module_class=module_class)])
    run.save(0, {NAME: np.full((4, 3), value)})
    assert fired(SaturatedActivation(), run) == fires


def test_limits_can_be_set():
    assert fired(SaturatedActivation({"threshold_tanh_max": "1"}), run_of([[2.0]])) == [0]
    assert fired(SaturatedActivation({"threshold_sigmoid_max": "1"}), run_of([[2.0]])) == []


def test_without_a_class_the_name_tells_and_else_the_wider_limits_count():
    user = {"tensor_regex": "_input"}
    for name, value, fires in (
        ("net0_tanh_input_0", 12.0, [0]),
        ("net0_sigmoid_input_0", 12.0, []),
        ("net0_sigmoid_input_0", 18.0, [0]),
        ("net0_other_input_0", 12.0, []),
        ("net0_other_input_0", 18.0, [0]),
    ):
        run = Run().save(0, {name: [[value]]})
        assert fired(SaturatedActivation(user), run) == fires, name


def test_by_default_it_looks_at_the_inputs_of_tanh_and_sigmoid_modules_only():
    far = [[1e3, 1e3]]
    assert fired(SaturatedActivation(), run_of(far, module_class="Sigmoid")) == [0]
    assert fired(SaturatedActivation(), run_of(far, module_class="Hardtanh")) == []
    output = Description(name="a_output_0", kind="output", module_class="Tanh")
    assert (
        fired(SaturatedActivation(), Run(descriptions=[output]).save(0, {"a_output_0": far})) == []
    )
    assert fired(SaturatedActivation(), Run().save(0, {"x_tanh_input_0": far})) == [0]  # smdebug's


def test_a_collection_takes_the_place_of_the_default_and_joins_an_expression():
    far, near = [[1e3]], [[0.0]]
    described = [Description(name=NAME, kind="input", module_class="Tanh")]
    run = Run(descriptions=described, collections={"mine": ["b", "c"]})
    run.save(0, {NAME: far, "b": near, "c": near})
    assert fired(SaturatedActivation({"collection_names": "mine"}), run) == []
    both = SaturatedActivation({"collection_names": "mine", "tensor_regex": NAME})
    assert judge(both, run)[0].tensor == NAME
    assert len(both.needs()) == 2


def test_exactly_half_of_a_layer_is_healthy():
    assert fired(SaturatedActivation(), run_of([[1e3, 0.0]])) == []
    assert fired(SaturatedActivation(), run_of([[1e3, 1e3, 0.0]])) == [0]


@pytest.mark.parametrize(
    ("threshold_layer", "fires"), [("0", [0]), ("33", [0]), ("33.4", []), ("100", [])]
)
def test_how_much_of_a_layer_may_saturate_can_be_set(threshold_layer, fires):
    rule = SaturatedActivation({"threshold_layer": threshold_layer})
    assert fired(rule, run_of([[1e3, 0.0, 0.0]])) == fires  # a third of it


@pytest.mark.parametrize("name", ["threshold_layer", "threshold_inactivity"])
@pytest.mark.parametrize(
    ("value", "reason"), [("-1", "smallest value is 0"), ("100.1", "largest value is 100")]
)
def test_what_is_not_a_percentage_is_refused(name, value, reason):
    with pytest.raises(RuleInvalid, match=f"{name} .*{reason}"):
        SaturatedActivation({name: value})


def test_the_finding_names_value_limits_tensor_and_step():
    finding = judge(SaturatedActivation(), run_of(np.full((200, 2), -50.0)))[0]
    assert finding.message == (
        "100 % of the nodes of act_input_0 are saturated at step 0, limit 50 % (inside -9.4999 "
        "to 9.4999 in less than 1 % of 200 observations)"
    )


def test_limits_the_wrong_way_round_are_refused():
    with pytest.raises(RuleInvalid, match="threshold_tanh_min 3 is not below"):
        SaturatedActivation({"threshold_tanh_min": "3", "threshold_tanh_max": "3"})


@REPEATABLE
@given(
    st.lists(any_array(FLOATS | st.sampled_from([0.0, 20.0, -25.0]), (2, 3)), max_size=4),
    st.sampled_from([("Tanh", -9.4999, 9.4999), ("Sigmoid", -23.0, 16.99999)]),
    st.sampled_from([1.0, 50.0]),
)
def test_it_fires_exactly_when_too_many_nodes_are_rarely_inside(batches, kind, inactivity):
    module_class, low, high = kind
    expected = []
    for step in range(len(batches)):
        seen = np.concatenate(batches[: step + 1])
        inside = (low < seen) & (seen < high)
        if (100 * inside.sum(axis=0) < inactivity * len(seen)).mean() > 0.5:
            expected.append(step)
    rule = SaturatedActivation({"threshold_inactivity": str(inactivity)})
    assert fired(rule, run_of(*batches, module_class=module_class)) == expected
