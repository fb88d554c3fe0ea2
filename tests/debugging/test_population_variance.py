"""The variance of a whole tensor from what the hook saves of it, beside NumPy's of the values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.debugging.hook.reduce import reduce, reduce_on_device
from stoker.debugging.population_variance import VARIANCE, population_variance
from stoker.debugging.tensors import SavedStep, SavedTensors, write_step

KINDS = {
    "variance": ("mean", np.var, lambda x: x),
    "std": ("mean", np.std, lambda x: x),
    "abs_variance": ("abs_mean", np.var, np.abs),
    "abs_std": ("abs_mean", np.std, np.abs),
}


def by_numpy(array: np.ndarray, name: str) -> float:
    _, function, prepare = KINDS[name]
    return float(function(prepare(array.astype(np.float64))))


@settings(derandomize=True, deadline=None)
@given(
    st.integers(1, 300),
    st.sampled_from([0.0, 1.0, -1000.0]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
)
def test_it_is_numpys_of_all_elements_however_many_there_are(size, offset, dtype, name, on_device):
    array = (np.random.default_rng(size).normal(size=size) + offset).astype(dtype)
    names = (name, KINDS[name][0], "l2_norm")
    tensor = torch.from_numpy(array)
    if on_device:
        saved = dict(zip(names, reduce_on_device(tensor, names).tolist(), strict=True))
    else:
        saved = reduce(tensor, names)
    if math.isnan(saved[name]):  # torch's own of a single element
        assert size == 1
        return
    assert population_variance(name, saved) == pytest.approx(by_numpy(array, name), rel=2e-3)
    if not offset and size > 1:
        assert population_variance(name, saved) == pytest.approx(by_numpy(array, name), rel=1e-5)


def test_the_shape_tells_the_number_of_elements_too():
    saved = reduce(torch.tensor([0.0, 2.0]), ("variance",))
    assert saved == {"variance": 2.0}
    assert population_variance("variance", saved, (2, 1)) == 1.0
    assert population_variance("variance", saved) == 2.0  # nothing tells: as it was saved


@pytest.mark.parametrize(
    "values", [[0.0, 0.0], [5.0], [5.0, 5.0], [math.nan, 1.0], [math.inf, 1.0], []]
)
def test_what_does_not_spread_or_is_not_finite_stays_what_it_is(values):
    saved = reduce(torch.tensor(values), VARIANCE)
    np.testing.assert_equal(population_variance("variance", saved), saved["variance"])


def test_a_reader_gives_one_variance_whichever_way_a_tensor_was_saved(tmp_path):
    array = np.array([0.0, 2.0], np.float32)
    reductions = {"x": reduce(torch.from_numpy(array), ("std", *VARIANCE))}
    forms = [
        {"tensors": {"x": array}},
        {"reductions": reductions},
        {"tensors": {"x": array}, "reductions": reductions},
        {"reductions": {"x": {"variance": 2.0, "std": math.sqrt(2)}}, "shapes": {"x": (2,)}},
    ]
    for step, form in enumerate(forms):
        common = {"step": step, "mode": "TRAIN", "mode_step": step}
        write_step(str(tmp_path), "worker_0", SavedStep(**common, **form))
    found = [SavedTensors(tmp_path).at(step).find("x") for step in range(len(forms))]
    assert [tensor.reduction("variance") for tensor in found] == [pytest.approx(1.0)] * 4
    assert [tensor.reduction("std") for tensor in found] == [pytest.approx(1.0)] * 4
    assert [tensor.has_value for tensor in found] == [True, False, True, False]
