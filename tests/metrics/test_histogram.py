"""The stock bins and counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stoker.metrics import histogram
from stoker.metrics.histogram import make_histogram

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
LARGE = histogram._FEW_ELEMENTS + 1


def stock_edges():
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return np.array([*(-edge for edge in edges[::-1]), 0.0, *edges])


def assert_counts_as_numpy(values):
    """Every bucket, found by its edge, holds what np.histogram says."""
    made = make_histogram(values)
    finite = values[np.isfinite(values)].astype(np.float64)
    counts, edges = np.histogram(finite, bins=stock_edges())
    expected = {edge: count for edge, count in zip(edges[1:], counts, strict=True) if count}
    got = {edge: c for edge, c in zip(made.limits, made.counts, strict=True) if c}
    assert got == expected
    assert made.size == values.size


def near_edges():
    """Each edge as a 32-bit float, and its neighbours on both sides."""
    edges = stock_edges().astype(np.float32)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return np.concatenate((edges, np.nextafter(edges, up), np.nextafter(edges, down)))


def test_values_at_every_edge_and_next_to_it_are_counted_as_numpy_does():
    values = np.tile(near_edges(), 4)
    assert values.size > LARGE
    assert_counts_as_numpy(values)


@pytest.mark.parametrize("special", [0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 1e20, -1e20])
def test_special_values_are_counted_as_numpy_does(special):
    assert_counts_as_numpy(np.full(LARGE, special, dtype=np.float32))
    assert_counts_as_numpy(np.full(3, special, dtype=np.float32))


def test_what_is_not_finite_is_in_no_bucket():
    values = np.tile(np.array([1.0, np.nan, np.inf, -np.inf, -2.5], dtype=np.float32), LARGE)
    assert_counts_as_numpy(values)
    made = make_histogram(values)
    assert np.isnan(made.total)
    assert np.isnan(made.minimum)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, st.integers(1, 50), elements=FLOATS), st.booleans())
def test_any_floats_are_counted_as_numpy_does(values, is_large):
    assert_counts_as_numpy(np.resize(values, LARGE) if is_large else values)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_bits_of_a_float_are_counted_as_numpy_does(seed):
    bits = np.random.default_rng(seed).integers(0, 1 << 32, LARGE, dtype=np.uint32)
    assert_counts_as_numpy(bits.view(np.float32))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("size", [7, LARGE])
def test_other_types_are_counted_as_numpy_does(dtype, size):
    values = (np.random.default_rng(0).standard_normal(size) * 50).astype(dtype)
    assert_counts_as_numpy(values)


@pytest.mark.parametrize("shape", [(), (1,), (300, 200), (3, 1, 5)])
def test_any_shape_and_layout_will_do(shape):
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    assert_counts_as_numpy(np.asarray(values))
    assert_counts_as_numpy(np.asarray(values).T)


def test_shares_of_several_threads_add_up():
    values = np.random.default_rng(2).standard_normal(3 * histogram._SHARE_ELEMENTS + 11)
    values = values.astype(np.float32)
    assert_counts_as_numpy(values)
    made = make_histogram(values)
    wide = values.astype(np.float64)
    assert (made.minimum, made.maximum) == (wide.min(), wide.max())
    assert made.total == pytest.approx(wide.sum(), rel=1e-9)
    assert made.total_of_squares == pytest.approx((wide**2).sum(), rel=1e-9)


def test_squares_beyond_32_bits_stay_finite():
    made = make_histogram(np.full(LARGE, 3e38, dtype=np.float32))
    assert made.total_of_squares == pytest.approx(LARGE * 9e76, rel=1e-6)


def test_the_limits_are_those_of_the_stock_writer():
    from torch.utils.tensorboard.summary import make_histogram as make_stock

    values = np.random.default_rng(3).standard_normal(LARGE).astype(np.float32)
    made, stock = make_histogram(values), make_stock(values.astype(float), stock_edges())
    assert list(stock.bucket_limit) == list(made.limits)
    assert list(stock.bucket) == list(made.counts)
    assert (stock.min, stock.max, stock.num) == (made.minimum, made.maximum, made.size)


def test_no_values_are_refused():
    with pytest.raises(ValueError, match="at least one value"):
        make_histogram(np.zeros(0, dtype=np.float32))
