"""VanishingGradient: gradients that are almost zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.vanishing_gradient import VanishingGradient
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE, any_tensors

NAME = "gradient/Net_fc.weight"


def train_deep(rule, folder, *block: type[nn.Module]):
    torch.manual_seed(0)
    layers = [made for _ in range(12) for made in (nn.Linear(8, 8), *(kind() for kind in block))]
    model = nn.Sequential(*layers, nn.Linear(8, 2))
    return train(rule, model, torch.randn(16, 8), torch.arange(16) % 2, folder=folder)


class Norm(nn.LayerNorm):
    def __init__(self) -> None:
        super().__init__(8)


def test_a_deep_network_of_sigmoids_fires_at_the_first_step_that_counts(tmp_path):
    rule = VanishingGradient()
    found = judge(rule, train_deep(rule, tmp_path, nn.Sigmoid))
    assert min(found) == 1  # its gradients are small from the start, but step 0 never counts
    assert found[1].tensor.startswith("gradient/Sequential_0.")  # the one next to the input
    assert 0 < found[1].values["abs_mean"] < 1e-7


def test_the_same_network_with_relu_and_normalization_is_healthy(tmp_path):
    rule = VanishingGradient()
    assert fired(rule, train_deep(rule, tmp_path, Norm, nn.ReLU)) == []


def test_step_0_never_fires():
    run = Run().save(0, {NAME: [0.0]}).save(1, {NAME: [1.0]}).save(2, {NAME: [0.0]})
    assert fired(VanishingGradient(), run) == [2]


def test_one_of_many_gradients_is_enough_and_the_smallest_is_named():
    tensors = {"gradient/a": [1.0], "gradient/b": [1e-9], "gradient/c": [0.0, 1e-9], "d": [0.0]}
    finding = judge(VanishingGradient(), Run().save(7, tensors))[7]
    assert finding.tensor == "gradient/c"
    assert finding.message == (
        "mean of |gradient/c| is 5e-10 at step 7, below 1e-07 (2 of 3 gradients are)"
    )
    assert finding.values == {
        "abs_mean": 5e-10,
        "threshold": 1e-7,
        "vanished": 2,
        "gradients": 3,
    }


def test_a_bias_before_a_normalization_is_named_last_and_explained(tmp_path):
    torch.manual_seed(0)
    rule = VanishingGradient()
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    finding = judge(
        rule, train(rule, model, torch.randn(16, 4), torch.arange(16) % 2, folder=tmp_path)
    )[1]
    assert finding.tensor == "gradient/Sequential_0.bias"
    assert "bias=False" in finding.hint
    both = Run().save(1, {"gradient/a.bias": [0.0], "gradient/b.weight": [1e-9]})
    assert judge(VanishingGradient(), both)[1].tensor == "gradient/b.weight"


def test_the_threshold_itself_is_healthy():
    rule = VanishingGradient({"threshold": "0.5"})
    run = Run().save(1, {NAME: [0.5]}).save(2, {NAME: [-np.nextafter(0.5, 0)]})
    assert fired(rule, run) == [2]


def test_a_threshold_of_0_never_fires_and_a_negative_one_is_refused():
    assert fired(VanishingGradient({"threshold": "0"}), Run().save(1, {NAME: [0.0]})) == []
    with pytest.raises(RuleInvalid, match="smallest value is 0"):
        VanishingGradient({"threshold": "-1e-9"})


def test_gradients_of_nan_or_without_elements_are_not_vanishing_ones():
    run = Run().save(1, {NAME: [np.nan, 0.0], "gradient/empty": np.zeros((0, 2))})
    assert fired(VanishingGradient(), run) == []


def test_every_worker_is_looked_at():
    run = Run().save(1, {NAME: [0.0]}).save(1, {NAME: [1.0]}, worker="worker_1")
    assert judge(VanishingGradient(), run)[1].values["vanished"] == 1


@REPEATABLE
@given(any_tensors("gradient/a", "gradient/b", "b"), st.floats(0, 10))
def test_it_fires_exactly_when_a_mean_is_below_the_threshold(tensors, threshold):
    with np.errstate(all="ignore"):
        expected = any(
            np.abs(array.astype(np.float64)).mean() < threshold
            for name, array in tensors.items()
            if name.startswith("gradient/") and array.size
        )
    rule = VanishingGradient({"threshold": repr(threshold)})
    assert fired(rule, Run().save(1, tensors)) == ([1] if expected else [])
