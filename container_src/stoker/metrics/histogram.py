"""Histograms with TensorBoard's usual bins: the stock counts at a fraction of their cost.

The 1548 bins grow by a tenth from ±1e-12 to ±1e20. The upper 16 bits of a 32-bit float (sign,
exponent, 7 bits of the mantissa) name a cell, and 17 cells of 18 lie in one bin as a whole: values
are counted by cell, and only those in the other cells are compared with the edges.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SMALLEST_EDGE = 1e-12
_LARGEST_EDGE = 1e20
_GROWTH = 1.1
_CELLS = 1 << 16
_CHUNK_ELEMENTS = 1 << 17  # what is made of a chunk stays in the processor's cache


class Histogram(NamedTuple):
    """What TensorBoard keeps of a tensor."""

    minimum: float
    maximum: float
    count: int
    total: float
    total_of_squares: float
    limits: NDArray[np.float64]
    """The right edge of each bucket."""
    counts: NDArray[np.float64]


def make_histogram(values: NDArray[np.generic]) -> Histogram:
    """Counts the values of an array of any shape, as `SummaryWriter.add_histogram` does.

    Values that are not finite or lie beyond ±1e20 are in no bucket.

    Raises:
        ValueError: there are no values.
    """
    if values.size == 0:
        raise ValueError("a histogram needs at least one value, but the tensor is empty")
    flat = values.reshape(-1)
    if flat.dtype != np.float32:
        return _make_wide_histogram(flat.astype(np.float64))
    divided = _tables().divided
    by_cell, scattered = np.zeros(_CELLS, dtype=np.int64), []
    total = squares = 0.0
    for start in range(0, flat.size, _CHUNK_ELEMENTS):
        chunk = np.ascontiguousarray(flat[start : start + _CHUNK_ELEMENTS])
        # Indexes of another type than this one would be converted twice below.
        cells = (chunk.view(np.uint32) >> 16).astype(np.intp)
        by_cell += np.bincount(cells, minlength=_CELLS)
        scattered.append(chunk[divided.take(cells)])
        total += float(chunk.sum(dtype=np.float64))
        squares += float(np.dot(chunk, chunk))
    counts = _count_whole_cells(by_cell) + _count_by_edges(np.concatenate(scattered))
    limits, buckets = _trimmed(counts)
    return Histogram(
        float(flat.min()), float(flat.max()), flat.size, total, squares, limits, buckets
    )


class _Tables(NamedTuple):
    edges: NDArray[np.float64]
    divided: NDArray[np.bool_]
    """Cell → whether an edge runs through it."""
    bins: NDArray[np.int64]
    """Cell → the bin it lies in; the one beyond the last where there is none."""


@cache
def _tables() -> _Tables:
    positive = []
    edge = _SMALLEST_EDGE
    while edge < _LARGEST_EDGE:
        positive.append(edge)
        edge *= _GROWTH
    edges = np.array([*(-edge for edge in reversed(positive)), 0.0, *positive])
    first = np.arange(_CELLS, dtype=np.uint32) << 16
    low, high = first.view(np.float32), (first | 0xFFFF).view(np.float32)
    bins = np.searchsorted(edges, low.astype(np.float64), side="right") - 1
    divided = bins != np.searchsorted(edges, high.astype(np.float64), side="right") - 1
    outside = (bins < 0) | (bins >= edges.size - 1) | ~np.isfinite(high)
    # Cells with infinities and NaN hold nothing that belongs to a bin; np.histogram says the same.
    return _Tables(edges, divided, np.where(outside, edges.size - 1, bins))


def _count_whole_cells(by_cell: NDArray[np.int64]) -> NDArray[np.int64]:
    tables = _tables()
    whole = np.where(tables.divided, 0, by_cell)
    counts = np.bincount(tables.bins, weights=whole, minlength=tables.edges.size)
    return counts[: tables.edges.size - 1].astype(np.int64)


def _count_by_edges(values: NDArray[np.floating]) -> NDArray[np.int64]:
    finite = values[np.isfinite(values)].astype(np.float64)
    return np.histogram(finite, bins=_tables().edges)[0].astype(np.int64)


def _make_wide_histogram(flat: NDArray[np.float64]) -> Histogram:
    limits, buckets = _trimmed(_count_by_edges(flat))
    numbers = (float(flat.min()), float(flat.max()), flat.size)
    return Histogram(*numbers, float(flat.sum()), float(flat.dot(flat)), limits, buckets)


def _trimmed(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The buckets that hold something, and an empty one before them that gives the first edge."""
    edges = _tables().edges
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        return edges[:1], np.zeros(1)
    first, last = int(filled[0]), int(filled[-1])
    padded = np.concatenate(([0], counts))
    return edges[first : last + 2], padded[first : last + 2].astype(np.float64)
