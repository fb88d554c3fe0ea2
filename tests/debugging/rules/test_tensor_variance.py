"""TensorVariance: tensors that spread too far, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.tensor_variance import TensorVariance
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE, any_tensors

ALL = {"collection_names": "all"}


def train_on(rule, folder, inputs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return train(rule, model, inputs, torch.arange(32) % 2, folder=folder, steps=3, lr=1e-6)


def pixels() -> torch.Tensor:
    """As they come from a file, from 0 to 255."""
    torch.manual_seed(0)
    return torch.randint(0, 256, (32, 4)).float()


def test_pixels_that_were_not_normalized_fire_from_the_first_step(tmp_path):
    rule = TensorVariance({"tensor_regex": "Sequential_input_0", "max_threshold": "10"})
    found = judge(rule, train_on(rule, tmp_path, pixels()))
    assert list(found) == [0, 1, 2]
    assert found[0].values["variance"] > 1000


def test_normalized_pixels_are_healthy(tmp_path):
    rule = TensorVariance(
        {"tensor_regex": "Sequential_input_0", "max_threshold": "10", "min_threshold": "0.1"}
    )
    assert fired(rule, train_on(rule, tmp_path, (pixels() - 128) / 74)) == []


def test_the_thresholds_themselves_are_healthy():
    run = Run().save(0, {"a": [0.0, 2.0]}).save(1, {"a": [0.0, 2.01]}).save(2, {"a": [0.0, 1.99]})
    assert fired(TensorVariance({**ALL, "max_threshold": "1"}), run) == [1]
    assert fired(TensorVariance({**ALL, "min_threshold": "1"}), run) == [2]
    both = {"max_threshold": "1", "min_threshold": "1"}
    assert fired(TensorVariance({**ALL, **both}), run) == [1, 2]


def test_the_finding_says_which_limit():
    run = Run().save(4, {"a": [0.0, 4.0], "b": [1.0, 1.0]})
    high = judge(TensorVariance({**ALL, "max_threshold": "3"}), run)[4]
    assert high.message == "variance of a is 4 at step 4, above 3"
    low = judge(TensorVariance({**ALL, "min_threshold": "0.5"}), run)[4]
    assert low.message == "variance of b is 0 at step 4, below 0.5"
    assert low.values == {"variance": 0.0, "threshold": 0.5}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (ALL, "can never fire"),
        ({"max_threshold": "1"}, "neither collection_names nor tensor_regex"),
        ({"max_threshold": "1", "collection_names": " , "}, "neither collection_names nor"),
        ({**ALL, "max_threshold": "1", "min_threshold": "2"}, "would always fire"),
        ({**ALL, "max_threshold": "-1"}, "smallest value is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_a_fix(settings, reason):
    with pytest.raises(RuleInvalid, match=reason) as refused:
        TensorVariance(settings)
    assert refused.value.fix


def test_the_saved_variance_is_enough():
    rule = TensorVariance({**ALL, "max_threshold": "3"})
    assert fired(rule, Run().save(0, {"a": [0.0, 4.0]}, reductions=["variance"])) == [0]


@REPEATABLE
@given(
    any_tensors("a", "b"),
    st.none() | st.floats(1, 1e3, width=32),
    st.floats(0, 1, width=32),
)
def test_it_fires_exactly_when_a_variance_is_out_of_bounds(tensors, most, least):
    settings = {**ALL, "min_threshold": repr(least)}
    if most is not None:
        settings["max_threshold"] = repr(most)
    with np.errstate(all="ignore"):
        variances = [array.astype(np.float64).var() for array in tensors.values() if array.size]
    expected = any(v < least or (most is not None and v > most) for v in variances)
    assert fired(TensorVariance(settings), Run().save(0, tensors)) == ([0] if expected else [])
