"""Reductions against plain NumPy, over arrays of every kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from smdebug.core.reductions import get_numpy_reduction

from stoker.debugging import reductions as reductions_module
from stoker.debugging.reductions import REDUCTIONS, make_reduction, make_reductions
from stoker.errors import TensorMissing

PLAIN = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "std": np.std,
    "variance": np.var,
    "sum": np.sum,
    "prod": np.prod,
    "l1_norm": lambda x: np.sum(np.abs(x)),
    "l2_norm": lambda x: np.sqrt(np.sum(x * x)),
}


def by_numpy(array, name):
    values = array.astype(np.float64).reshape(-1)
    if name.startswith("abs_"):
        values = np.abs(values)
    with np.errstate(all="ignore"):
        return float(PLAIN[name.removeprefix("abs_")](values))


arrays = hnp.arrays(
    st.sampled_from(["f2", "f4", "f8", ">f4", "i1", "i4", "i8", "u1", "?"]).map(np.dtype),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=8),
)


@settings(max_examples=150, deadline=None)
@given(array=arrays, name=st.sampled_from(REDUCTIONS), order=st.sampled_from("CF"))
def test_every_reduction_is_numpys(array, name, order):
    expected = by_numpy(array, name)
    found = make_reduction(np.array(array, order=order), name)
    scale = float(np.max(np.abs(array.astype(np.float64)), initial=0.0))
    tolerance = 1e-9 * scale * max(scale, 1.0) * array.size if math.isfinite(scale) else 0.0
    if math.isfinite(expected) and name.removeprefix("abs_") != "prod":
        assert found == pytest.approx(expected, rel=1e-6, abs=tolerance)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 2500])
def test_an_array_of_several_pieces_is_reduced_as_one(monkeypatch, name, size):
    monkeypatch.setattr(reductions_module, "_PIECE", 1000)
    whole = 1 + 1e-3 * np.random.default_rng(size).standard_normal((size, 2))
    for array in (whole, whole.T, whole[::2]):
        assert make_reduction(array, name) == pytest.approx(by_numpy(array, name), rel=1e-9)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("position", [0, 70_000, 139_999])
def test_one_nan_anywhere_gives_nan(name, position):
    array = np.ones(140_000, np.float32)
    array[position] = np.nan
    assert math.isnan(make_reduction(array, name))


def test_infinities_are_kept():
    array = np.array([1.0, -np.inf, 3.0], np.float32)
    found = make_reductions(array, ("min", "max", "abs_max", "l2_norm", "mean"))
    assert found == {
        "min": -math.inf,
        "max": 3.0,
        "abs_max": math.inf,
        "l2_norm": math.inf,
        "mean": -math.inf,
    }


def test_half_precision_does_not_overflow():
    array = np.full(100_000, 60_000, np.float16)
    assert make_reduction(array, "sum") == 6e9
    assert make_reduction(array, "l2_norm") == pytest.approx(60_000 * math.sqrt(100_000))
    assert make_reduction(np.array([-128], np.int8), "abs_max") == 128


def test_the_spread_is_that_of_the_population_as_in_smdebugs_reader():
    array = np.array([1.0, 2.0, 4.0])
    for ours, theirs in (("std", "std"), ("variance", "variance"), ("abs_std", "std")):
        assert make_reduction(array, ours) == pytest.approx(
            float(get_numpy_reduction(theirs, array, abs="abs" in ours))
        )
    assert make_reduction(np.array([5.0]), "std") == 0.0


def test_the_norms_are_of_one_long_vector():
    matrix = np.arange(6.0).reshape(2, 3)
    assert make_reduction(matrix, "l1_norm") == 15
    assert make_reduction(matrix, "l2_norm") == pytest.approx(math.sqrt(55))


def test_complex_numbers_have_magnitudes_only():
    array = np.array([3 + 4j, 0], np.complex64)
    assert make_reductions(array, ("abs_max", "l1_norm", "abs_mean")) == {
        "abs_max": 5.0,
        "l1_norm": 5.0,
        "abs_mean": 2.5,
    }
    with pytest.raises(TensorMissing, match=r"complex64 has no mean\n  fix: .*abs_mean"):
        make_reduction(array, "mean")


def test_nothing_has_a_sum_but_no_mean():
    found = make_reductions(np.empty((0, 3)), REDUCTIONS)
    assert {name for name, value in found.items() if not math.isnan(value)} == {
        *("sum", "prod", "l1_norm", "l2_norm"),
        *("abs_sum", "abs_prod", "abs_l1_norm", "abs_l2_norm"),
    }
    assert (found["sum"], found["prod"], found["l2_norm"]) == (0, 1, 0)


def test_texts_and_unknown_names_are_refused():
    with pytest.raises(TensorMissing, match="no reduction 'median'"):
        make_reduction(np.ones(1), "median")
    with pytest.raises(TensorMissing, match="<U1 has no max"):
        make_reduction(np.array(["a"]), "max")
