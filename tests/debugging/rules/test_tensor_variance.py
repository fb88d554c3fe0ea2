"""TensorVariance: tensors that spread too far, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.need import Need
from stoker.debugging.rules.tensor_variance import TensorVariance
from stoker.debugging.rules.unchanged_tensor import UnchangedTensor
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE, any_tensors

ALL = {"collection_names": "all"}
NEED = Need(collection="it", regex="^Sequential_2.bias")


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


def test_what_it_asks_to_be_saved_is_enough():
    (need,) = TensorVariance({**ALL, "max_threshold": "3"}).needs()
    run = Run().save(0, {"a": [0.0, 4.0]}, reductions=need.reductions)
    assert fired(TensorVariance({**ALL, "max_threshold": "3.99"}), run) == [0]
    assert fired(TensorVariance({**ALL, "max_threshold": "4.01"}), run) == []


def test_a_rule_that_has_the_values_saved_changes_no_verdict(tmp_path):
    """The bias of two elements has twice the variance if the hook's own division counted."""
    choice = {"tensor_regex": NEED.regex}
    other = UnchangedTensor(choice)
    reduced = train_on(TensorVariance({**choice, "max_threshold": "1"}), tmp_path / "a", pixels())
    whole = train_on(other, tmp_path / "b", pixels())
    for step in whole.steps():
        (numbers,), (values,) = reduced.at(step).needed(NEED), whole.at(step).needed(NEED)
        assert (numbers.has_value, values.has_value) == (False, True)
        variance = np.var(values.value(), dtype=np.float64)
        assert numbers.reduction("variance") == pytest.approx(variance, rel=1e-5)
        for limit, fires in ((variance * 0.99, [step]), (variance * 1.01, [])):
            for run in (reduced, whole):
                rule = TensorVariance({**choice, "max_threshold": repr(float(limit))})
                assert fired(rule, run, start=step, end=step + 1) == fires


@REPEATABLE
@given(
    any_tensors("a", "b"),
    st.none() | st.floats(1, 1e3, width=32),
    st.floats(0, 1, width=32),
    st.booleans(),
)
def test_it_fires_exactly_when_a_variance_is_out_of_bounds(tensors, most, least, is_reduced):
    settings = {**ALL, "min_threshold": repr(least)}
    if most is not None:
        settings["max_threshold"] = repr(most)
    with np.errstate(all="ignore"):
        doubles = {name: array.astype(np.float64) for name, array in tensors.items()}
        variances = [array.var() for array in doubles.values() if array.size]
    expected = any(v < least or (most is not None and v > most) for v in variances)
    rule = TensorVariance(settings)
    reductions = rule.needs()[0].reductions if is_reduced else ()
    run = Run().save(0, doubles, reductions=reductions)
    assert fired(rule, run) == ([0] if expected else [])
