"""PoorWeightInitialization: weights that start too large, too small or all alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.population_variance import VARIANCE
from stoker.debugging.rules.poor_weight_initialization import PoorWeightInitialization
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE

LOSS = "CrossEntropyLoss_output_0"
GRADIENT = "gradient/Net_fc.weight"
WIDE = np.linspace(-1, 1, 100)
INPUTS = ["a_input_0", "b_input_0"]
DESCRIBED = [Description(name=name, kind="input", module_class="ReLU") for name in INPUTS]


def train_with(rule, folder, initialize, *, lr=0.01):
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(32, 2))
    for module in model:
        if isinstance(module, nn.Linear):
            initialize(module.weight)
            nn.init.zeros_(module.bias)
    inputs = torch.randn(64, 32)
    labels = (inputs[:, 0] > 0).long()
    return train(rule, model, inputs, labels, folder=folder, steps=12, lr=lr)


def save_healthy(run: Run, step: int, **others) -> Run:
    tensors = {INPUTS[0]: [0.0, 1.0], INPUTS[1]: [0.0, 2.0], GRADIENT: WIDE}
    return run.save(step, {**tensors, LOSS: 1.0 / (step + 1), **others})


def test_weights_that_start_too_large_fire_at_step_0_by_the_variance_of_layers(tmp_path):
    rule = PoorWeightInitialization()
    found = judge(rule, train_with(rule, tmp_path, lambda w: nn.init.normal_(w, std=1.0)))
    assert min(found) == 0
    assert found[0].tensor == "7_input_0"  # the last one: the signal grew from layer to layer
    assert found[0].values["largest"] > 10 * found[0].values["smallest"]


def test_weights_that_start_too_small_fire_at_step_0(tmp_path):
    rule = PoorWeightInitialization({"threshold": "1e30"})  # only the gradients are looked at
    found = judge(rule, train_with(rule, tmp_path, lambda w: nn.init.normal_(w, std=1e-3)))
    assert min(found) == 0
    assert "5th and 95th percentile" in found[0].message
    assert found[0].values["range"] < 0.001


def test_an_initialization_made_for_relu_is_healthy(tmp_path):
    rule = PoorWeightInitialization()
    run = train_with(rule, tmp_path, lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"))
    assert fired(rule, run) == []


def test_a_loss_that_never_falls_fires_when_patience_ends(tmp_path):
    rule = PoorWeightInitialization()
    initialize = lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu")  # noqa: E731
    found = judge(rule, train_with(rule, tmp_path, initialize, lr=0.0))
    assert list(found) == [5, 6, 7, 8, 9]  # five steps after the first; it looks at ten
    assert found[5].values["steps_without_better"] == 5


def test_only_the_first_saved_steps_of_training_are_looked_at():
    run = Run(descriptions=DESCRIBED)
    for step in range(0, 5000, 500):
        save_healthy(run, step)
    run.save(5000, {GRADIENT: np.zeros(100)})
    assert fired(PoorWeightInitialization(), run) == []
    assert fired(PoorWeightInitialization({"steps": "11"}), run) == [5000]


def test_losses_that_are_saved_more_often_use_no_step_up():
    run = Run(descriptions=DESCRIBED)
    for step in range(100):
        run.save(step, {LOSS: 1.0})
    run.save(100, {GRADIENT: np.zeros(100), LOSS: 1.0})
    assert fired(PoorWeightInitialization(), run) == [100]


def test_evaluation_does_not_count():
    run = Run(descriptions=DESCRIBED)
    for step in range(20):
        run.save(step, {INPUTS[0]: [0.0, 1.0], INPUTS[1]: [0.0, 100.0], LOSS: 1.0}, mode="EVAL")
    assert fired(PoorWeightInitialization(), run) == []


def test_the_ratio_at_its_limit_is_healthy_and_a_variance_of_zero_is_not_a_division():
    run = Run(descriptions=DESCRIBED).save(0, {INPUTS[0]: [-1.0, 1.0], INPUTS[1]: [-3.0, 3.0]})
    assert fired(PoorWeightInitialization({"threshold": "9"}), run) == []
    assert fired(PoorWeightInitialization({"threshold": "8.99"}), run) == [0]
    flat = Run(descriptions=DESCRIBED).save(0, {INPUTS[0]: [1.0, 1.0], INPUTS[1]: [0.0, 1.0]})
    assert judge(PoorWeightInitialization(), flat)[0].values["smallest"] == 0
    both = Run(descriptions=DESCRIBED).save(0, {INPUTS[0]: [1.0, 1.0], INPUTS[1]: [2.0, 2.0]})
    assert fired(PoorWeightInitialization(), both) == []


def test_gradients_of_a_few_elements_have_no_percentiles():
    run = Run(descriptions=DESCRIBED).save(0, {"gradient/Net_fc.bias": np.zeros(19)})
    assert fired(PoorWeightInitialization(), run) == []
    run = Run().save(0, {"gradient/Net_fc.weight": np.zeros(100, np.complex64)})
    assert fired(PoorWeightInitialization(), run) == []
    run = Run(descriptions=DESCRIBED).save(0, {"gradient/Net_fc.bias": np.zeros(20)})
    assert fired(PoorWeightInitialization(), run) == [0]


def test_a_narrow_gradient_of_a_bias_is_named_last_and_explained():
    bias = {"gradient/Net_fc.bias": np.zeros(20)}
    assert "bias=False" in judge(PoorWeightInitialization(), Run().save(0, bias))[0].hint
    both = Run().save(0, {**bias, GRADIENT: WIDE / 1e5})
    assert judge(PoorWeightInitialization(), both)[0].tensor == GRADIENT


def test_the_variance_of_activations_is_enough_and_gradients_are_needed_whole():
    activations, gradients, losses = PoorWeightInitialization().needs()
    assert activations.reductions == VARIANCE
    assert "GELU" in activations.module_classes
    assert (gradients.reductions, losses.reductions) == ((), ())
    run = Run(descriptions=DESCRIBED)
    run.save(0, {INPUTS[0]: [0.0, 1.0], INPUTS[1]: [0.0, 9.0]}, reductions=VARIANCE)
    assert fired(PoorWeightInitialization(), run) == [0]


def test_the_expression_of_the_user_wins():
    run = Run(descriptions=DESCRIBED).save(0, {INPUTS[0]: [0.0, 1.0], INPUTS[1]: [0.0, 9.0]})
    assert fired(PoorWeightInitialization({"activation_inputs_regex": "^a_"}), run) == []
    assert fired(PoorWeightInitialization({"activation_inputs_regex": "input"}), run) == [0]
    with pytest.raises(RuleInvalid, match="not a valid regular expression"):
        PoorWeightInitialization({"activation_inputs_regex": "("})


@pytest.mark.parametrize(
    "draw",
    [
        lambda generator, size: generator.normal(size=size),
        lambda generator, size: generator.standard_cauchy(size=size),
        lambda generator, size: np.where(generator.random(size) < 0.055, 1.0, 0.0),
        lambda generator, size: np.where(generator.random(size) < 0.045, 1.0, 0.0),
        lambda generator, size: np.sort(generator.normal(size=size)),
        # The elements that the sample is drawn from are others than the rest.
        lambda generator, size: np.where(np.arange(size) % 4, 0.0, 1.0),
        lambda generator, size: np.where(np.arange(size) % 4, 0.0, generator.random(size) < 0.18),
        lambda generator, size: np.where(np.arange(size) == 1, np.nan, generator.random(size)),
        lambda generator, size: np.zeros(size),
    ],
)
def test_large_gradients_are_evaluated_by_their_exact_percentiles(draw):
    gradient = draw(np.random.default_rng(0), 40_000).astype(np.float32)
    low, high = np.percentile(gradient, [5, 95])
    for limit in (float(high - low), float(high - low) * 1.01 + 1e-6, 1e-3, 0.5):
        rule = PoorWeightInitialization(
            {"distribution_range": repr(limit)} if limit == limit else None
        )
        expected = [0] if high - low < rule.distribution_range else []
        assert fired(rule, Run().save(0, {GRADIENT: gradient.reshape(200, 200)})) == expected


@pytest.mark.parametrize(
    ("name", "value", "smallest"),
    [
        *(("patience", "0", 1), ("steps", "0", 1)),
        *(("threshold", "0.99", 1), ("distribution_range", "-0.001", 0)),
    ],
)
def test_settings_below_their_smallest_values_are_refused(name, value, smallest):
    with pytest.raises(RuleInvalid, match=f"{name} .*smallest value is {smallest}"):
        PoorWeightInitialization({name: value})
    PoorWeightInitialization({name: str(smallest)})


def test_a_range_of_zero_is_never_undercut():
    run = Run().save(0, {GRADIENT: np.zeros(100)})
    assert fired(PoorWeightInitialization({"distribution_range": "0"}), run) == []
    assert fired(PoorWeightInitialization({"distribution_range": "1e-30"}), run) == [0]


STEP = st.fixed_dictionaries(
    {},
    optional={
        INPUTS[0]: st.sampled_from([[0.0, 1.0], [0.0, 0.0], [np.nan, 0.0]]),
        INPUTS[1]: st.sampled_from([[0.0, 2.0], [0.0, 9.0], [np.inf, 0.0]]),
        GRADIENT: st.sampled_from([WIDE.tolist(), (WIDE / 1e4).tolist(), [np.nan] * 30]),
        LOSS: st.sampled_from([0.5, 1.0, 2.0, np.nan]),
    },
)


@REPEATABLE
@given(
    st.lists(STEP, max_size=8),
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([1.0, 4.0, 10.0, 100.0]),
    st.sampled_from([0.0, 1e-4, 0.001, 1.85]),
)
def test_it_fires_exactly_when_one_of_three_conditions_holds(
    history, patience, limit, ratio, width
):
    expected, losses, looked = [], [], 0
    for step, tensors in enumerate(history):
        if looked == limit or not any(name in tensors for name in (*INPUTS, GRADIENT)):
            continue
        looked += 1
        losses += [tensors[LOSS]] if LOSS in tensors else []
        with np.errstate(all="ignore"):
            spread = [np.var(tensors[name]) for name in INPUTS if name in tensors]
            spread = [variance for variance in spread if not np.isnan(variance)]
            is_uneven = len(spread) == 2 and max(spread) > ratio * min(spread)
            percentiles = np.percentile(tensors.get(GRADIENT, WIDE), [5, 95])
        is_narrow = GRADIENT in tensors and percentiles[1] - percentiles[0] < width
        best = min((loss for loss in losses if not np.isnan(loss)), default=None)
        since = len(losses) - losses.index(best) - 1 if best is not None else len(losses)
        if is_uneven or is_narrow or since >= patience:
            expected.append(step)
    run = Run(descriptions=DESCRIBED)
    for step, tensors in enumerate(history):
        run.save(step, tensors)
    counts = {"patience": str(patience), "steps": str(limit)}
    limits = {"threshold": repr(ratio), "distribution_range": repr(width)}
    rule = PoorWeightInitialization({**counts, **limits})
    assert fired(rule, run) == expected
