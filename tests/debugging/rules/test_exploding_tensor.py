"""ExplodingTensor: NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.need import Need
from stoker.debugging.rules.exploding_tensor import ExplodingTensor
from stoker.errors import RuleInvalid, TensorMissing
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE, any_tensors
from tests.debugging.rules.watching import watch

GRADIENT = "gradient/Net_fc.weight"
INPUTS = torch.arange(1.0, 9.0).reshape(8, 1)
STEPS = 40


def make_line() -> nn.Linear:
    """A line through points, by gradient descent: it diverges if a step is too long."""
    torch.manual_seed(0)
    return nn.Linear(1, 1)


def train_line(rule, folder, *, lr: float):
    options = {"loss": nn.MSELoss(), "lr": lr, "steps": STEPS}
    return train(rule, make_line(), INPUTS, 3 * INPUTS, folder=folder, **options)


def first_step_that_is_not_finite(*, lr: float) -> int:
    """By torch alone: the same training without a hook."""
    model = make_line()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(STEPS):
        optimizer.zero_grad()
        weights = [parameter.detach().clone() for parameter in model.parameters()]
        output = model(INPUTS)
        loss = nn.functional.mse_loss(output, 3 * INPUTS)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        if not all(t.isfinite().all() for t in (*weights, *gradients, output, loss)):
            return step
        optimizer.step()
    raise AssertionError("it stayed finite")


def test_a_learning_rate_that_is_too_high_fires_at_the_first_step_that_is_not_finite(tmp_path):
    rule = ExplodingTensor()
    found = judge(rule, train_line(rule, tmp_path, lr=10.0))
    first = first_step_that_is_not_finite(lr=10.0)
    assert 0 < first < STEPS - 1
    assert list(found) == list(range(first, STEPS))
    assert "infinity" in found[first].message  # it overflows before it is NaN
    assert "NaN" in found[STEPS - 1].message


def test_a_learning_rate_that_fits_is_healthy(tmp_path):
    rule = ExplodingTensor()
    assert fired(rule, train_line(rule, tmp_path, lr=0.01)) == []


def test_nan_at_steps_0_and_2_fires_at_each():
    # The tests of 2019.
    run = Run()
    for step, value in enumerate([np.nan, 1.0, np.nan]):
        run.save(step, {"a": [1.0], "b": [value]})
    assert fired(ExplodingTensor(), run) == [0, 2]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_counts_unless_only_nan_is_asked_for(value):
    run = Run().save(0, {"a": [1.0, value]})
    assert fired(ExplodingTensor(), run) == [0]
    assert fired(ExplodingTensor({"only_nan": "True"}), run) == []


def test_nan_next_to_infinity_is_nan():
    run = Run().save(3, {"a": [np.inf, np.nan, -np.inf], "b": [np.inf], "c": [0.0]})
    assert judge(ExplodingTensor({"only_nan": "true"}), run)[3].values["with_nan"] == 1
    finding = judge(ExplodingTensor(), run)[3]
    assert finding.message == "a holds NaN at step 3 (2 of 3 tensors do; none may)"
    assert finding.values == {"with_nan": 1, "with_infinity": 1, "tensors": 3}


def test_it_looks_at_the_union_of_what_is_named():
    nan = {"Net_fc.weight": [np.nan], "gradient/Net_fc.weight": [np.nan], "x_output_0": [np.nan]}
    rule = ExplodingTensor({"collection_names": "weights, gradients", "tensor_regex": "^x,weight"})
    assert judge(rule, Run().save(0, nan))[0].values["tensors"] == 3
    rule = ExplodingTensor({"tensor_regex": "^x_,y"})
    assert judge(rule, Run().save(0, nan))[0].tensor == "x_output_0"
    assert fired(ExplodingTensor({"collection_names": "biases"}), Run().save(0, nan)) == []


def test_the_largest_magnitude_of_every_tensor_is_all_it_needs():
    assert ExplodingTensor().needs() == [Need(collection="all", reductions=("abs_max",))]
    run = Run().save(0, {"a": [1.0, np.nan, np.inf]}, reductions=["abs_max"])
    assert fired(ExplodingTensor({"only_nan": "True"}), run) == [0]


def test_of_all_tensors_those_that_cannot_be_evaluated_are_left_out():
    run = Run().save(0, {"a": [1.0]}, reductions=["mean"])
    with pytest.raises(TensorMissing):  # then nothing was evaluated
        ExplodingTensor().check(0, run.at(0))
    run.save(0, {"b": [np.nan]})
    assert judge(ExplodingTensor(), run)[0].tensor == "b"
    with pytest.raises(TensorMissing):  # it was asked for by name
        ExplodingTensor({"tensor_regex": "a"}).check(0, run.at(0))


def test_an_expression_that_is_none_is_refused():
    with pytest.raises(RuleInvalid, match="not a valid regular expression"):
        ExplodingTensor({"tensor_regex": "fc(weight"})


@REPEATABLE
@given(
    st.lists(any_tensors("a", "b_output_0", "c_input_0", GRADIENT), max_size=6),
    st.sampled_from([1, 7, 8, 500]),
    st.booleans(),
)
def test_it_fires_exactly_when_an_element_is_not_finite(history, every, only_nan):
    """Of inputs only NaN counts, and gradients by themselves only in a long row."""

    def is_bad(name: str, array: np.ndarray) -> bool:
        is_nan_only = only_nan or name == "c_input_0"
        return bool((np.isnan(array) if is_nan_only else ~np.isfinite(array)).any())

    expected, row = [], []
    run = Run()
    for step, tensors in enumerate(history):
        run.save(step * every, tensors)
        bad = {name for name, array in tensors.items() if is_bad(name, array)}
        if GRADIENT in tensors and tensors[GRADIENT].size:
            row = [*row, step * every] if GRADIENT in bad else []
        is_long = len(row) >= 3 and row[-1] - row[0] >= 16
        if bad - {GRADIENT} or (GRADIENT in bad and is_long):
            expected.append(step * every)
    assert fired(ExplodingTensor({"only_nan": str(only_nan)}), run) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("witness", ["MSELoss_output_0", "Net_fc.weight", "Net_fc.bias"])
@pytest.mark.parametrize("named", [{}, {"collection_names": "gradients"}])
def test_gradients_count_with_a_loss_or_a_parameter_that_is_not_finite(value, witness, named):
    run = Run().save(0, {GRADIENT: [value], witness: [1.0]})
    run.save(1, {GRADIENT: [value], witness: [value]}).save(2, {GRADIENT: [value]})
    run.save(3, {GRADIENT: [1.0], "MSELoss_output_0": [1.0]})
    assert fired(ExplodingTensor(named), run) == [1]


@pytest.mark.parametrize(
    ("every", "fires"), [(1, [16, 17, 18, 19]), (5, [20, 25]), (10, [20, 30]), (500, [1000])]
)
def test_gradients_that_stay_as_they_are_count_by_themselves(every, fires):
    run = Run()
    for step in range(0, fires[-1] + 1, every):
        run.save(step, {GRADIENT: [np.inf]}).save(step, {"MSELoss_output_0": [1.0]})
    assert fired(ExplodingTensor(), run) == fires


def test_finite_gradients_and_no_others_end_such_a_row():
    run = Run()
    for step in range(20):
        run.save(step, {GRADIENT: [1.0 if step == 9 else np.nan]})
    assert fired(ExplodingTensor(), run) == []
    run = Run()
    for step in range(0, 20, 2):
        run.save(step, {GRADIENT: [np.nan]}).save(step + 1, {"x": [1.0]}, mode="EVAL")
    assert fired(ExplodingTensor(), run) == [16, 18]


def train_scaled(rule, folder, model, *, scale: float, steps: int = 20):
    """A training with a gradient scaler, which leaves out the steps that overflow."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = nn.MSELoss()
    scales = []
    with watch(rule, folder) as run:
        for _ in range(steps):
            optimizer.zero_grad()
            scaler.scale(loss(model(INPUTS), 3 * INPUTS)).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
    return run, scales


@pytest.mark.parametrize("named", [{}, {"collection_names": "gradients"}, {"only_nan": "True"}])
def test_a_gradient_scaler_that_looks_for_its_scale_is_healthy(tmp_path, named):
    rule = ExplodingTensor(named)
    run, scales = train_scaled(rule, tmp_path, make_line(), scale=2.0**126)
    assert scales[0] == 2.0**125  # it did overflow
    assert scales[-1] == scales[-2] > 1  # and found a scale that fits
    at_first = [tensor.reduction("abs_max") for tensor in run.at(0).needed("gradients")]
    assert np.inf in at_first
    assert fired(rule, run) == []


def test_a_gradient_that_is_nan_at_any_scale_fires_though_the_weights_stay_finite(tmp_path):
    class Root(nn.Linear):
        """The derivative of a root at zero is infinite, and zero times that is no number."""

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(0 * super().forward(inputs))

    rule = ExplodingTensor()
    run, scales = train_scaled(rule, tmp_path, Root(1, 1), scale=2.0**16)
    assert scales[-1] < 1
    found = judge(rule, run)
    assert list(found) == [16, 17, 18, 19]
    assert found[16].tensor.startswith("gradient/")


class Causal(nn.Module):
    """Attention that must not look ahead: its mask is made of -infinity."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
        output: torch.Tensor = self.layer(inputs, src_mask=mask)
        return output


@pytest.mark.parametrize(("named", "steps"), [({}, []), ({"collection_names": "inputs"}, [0, 1])])
def test_infinity_of_a_mask_is_healthy_unless_inputs_are_named(tmp_path, named, steps):
    torch.manual_seed(0)
    inputs = torch.randn(2, 3, 4)
    rule = ExplodingTensor(named)
    options = {"loss": nn.MSELoss(), "lr": 0.01, "steps": 2}
    run = train(rule, Causal(), inputs, inputs, folder=tmp_path, **options)
    assert np.inf in [tensor.reduction("abs_max") for tensor in run.at(0).needed("inputs")]
    assert list(judge(rule, run)) == steps


def test_an_output_without_elements_is_not_nan(tmp_path):
    class Sometimes(nn.Module):
        """Like a detector that finds nothing."""

        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            output = self.fc(inputs)
            return output, output[output > 1e9]

    class FirstLoss(nn.Module):
        def forward(self, output: tuple[torch.Tensor, torch.Tensor], targets) -> torch.Tensor:
            return nn.functional.mse_loss(output[0], targets)

    rule = ExplodingTensor()
    inputs = torch.randn(4, 2)
    run = train(rule, Sometimes(), inputs, inputs, folder=tmp_path, loss=FirstLoss(), steps=2)
    assert "Sometimes_output_1" in run.at(0).names
    assert fired(rule, run) == []
