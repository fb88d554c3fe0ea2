"""AllZero: tensors of zeros."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.rules.all_zero import AllZero
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE, any_tensors

ALL = {"collection_names": "all"}


def train_started(rule, folder, *, weight: float | None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    if weight is not None:
        nn.init.constant_(model[0].weight, weight)
        nn.init.zeros_(model[0].bias)
    return train(rule, model, torch.randn(16, 4), torch.arange(16) % 2, folder=folder, steps=3)


def test_weights_that_start_at_zero_behind_a_relu_have_gradients_of_zero_from_step_0(tmp_path):
    rule = AllZero({"collection_names": "gradients"})
    found = judge(rule, train_started(rule, tmp_path, weight=0.0))
    assert list(found) == [0, 1, 2]  # relu'(0) is 0, so it never gets away from there
    assert found[0].values["zero_percent"] == 100
    assert found[0].values["reached"] == 3  # of the first layer both, of the last one its weight


def test_a_random_start_is_healthy(tmp_path):
    rule = AllZero({"collection_names": "gradients,weights"})
    assert fired(rule, train_started(rule, tmp_path, weight=None)) == []


def test_a_share_of_exactly_the_threshold_fires():
    run = Run().save(0, {"a": [0.0, 0.0, 0.0, 1.0]})
    assert fired(AllZero({**ALL, "threshold": "75"}), run) == [0]
    assert fired(AllZero({**ALL, "threshold": "75.001"}), run) == []
    assert fired(AllZero(ALL), run) == []
    assert fired(AllZero(ALL), Run().save(0, {"a": [0.0, -0.0]})) == [0]


def test_a_bias_of_zero_is_named_last_and_said_to_start_there():
    tensors = {"Net_a.bias": [0.0], "Net_b.weight": [0.0]}
    run = Run().save(0, tensors).save(1, {"Net_a.bias": [0.0], "Net_b.weight": [1.0]})
    found = judge(AllZero(ALL), run)
    assert found[0].tensor == "Net_b.weight"
    assert found[0].message == (
        "100 % of Net_b.weight is zero at step 0, limit 100 % (2 of 2 tensors)"
    )
    assert found[1].tensor == "Net_a.bias"
    assert "biases start at 0" in found[1].hint


def test_what_a_tensor_is_counts_and_not_its_name():
    described = Description(name="Net_shift", kind="bias")
    finding = judge(AllZero(ALL), Run(descriptions=[described]).save(0, {"Net_shift": [0.0]}))[0]
    assert "biases start at 0" in finding.hint


def test_only_a_threshold_below_100_needs_the_values():
    assert AllZero(ALL).needs()[0].reductions == ("abs_max",)
    assert AllZero({**ALL, "threshold": "99.9"}).needs()[0].reductions == ()
    run = Run().save(0, {"a": [0.0, 0.0]}, reductions=["abs_max"])
    assert fired(AllZero(ALL), run) == [0]


@pytest.mark.parametrize("threshold", ["-1", "100.1", "many", "nan"])
def test_a_threshold_that_is_not_a_percentage_is_refused(threshold):
    with pytest.raises(RuleInvalid, match="threshold"):
        AllZero({**ALL, "threshold": threshold})


def test_it_has_to_be_told_which_tensors():
    with pytest.raises(RuleInvalid, match="neither collection_names nor tensor_regex") as refused:
        AllZero()
    assert "AllZero(" in refused.value.fix


@REPEATABLE
@given(
    any_tensors("a", "b", elements=st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf])),
    st.sampled_from([0.0, 10.0, 50.0, 99.0, 100.0]),
)
def test_it_fires_exactly_when_the_share_of_zeros_reaches_the_threshold(tensors, threshold):
    shares = [(array == 0).mean() * 100 for array in tensors.values() if array.size]
    expected = any(share >= threshold for share in shares)
    rule = AllZero({**ALL, "threshold": repr(threshold)})
    assert fired(rule, Run().save(0, tensors)) == ([0] if expected else [])
