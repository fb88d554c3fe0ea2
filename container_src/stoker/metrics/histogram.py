"""Histograms with TensorBoard's usual bins: the stock counts at a fraction of their cost.

The 1548 bins grow by a tenth from ±1e-12 to ±1e20. The upper 13 bits of a 32-bit float (sign,
exponent, 4 bits of the mantissa) name a cell, and no cell holds more than one edge. Adding so much
to the bits that an edge is on the border of its cell moves what is beyond the edge to
the next cell, where only values of the same bin are left: counting cells then counts bins.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SMALLEST_EDGE = 1e-12  # these three: as TensorBoard's own default
_LARGEST_EDGE = 1e20
_GROWTH = 1.1
_CELL_BITS = 13  # sign, exponent, 4 bits of the mantissa: narrower than any bin
_REST_BITS = 32 - _CELL_BITS
_CELLS = 1 << _CELL_BITS
_CELL_WIDTH = 1 << _REST_BITS
_FEW_ELEMENTS = 1 << 14  # below, finding the bin of each is quicker than counting cells first
_CHUNK_ELEMENTS = 1 << 17  # what is made of a chunk stays in the processor's cache
_SHARE_ELEMENTS = 1 << 20  # what is worth a thread; NumPy releases the GIL meanwhile
_MOST_THREADS = 4


class Histogram(NamedTuple):
    """What TensorBoard keeps of a tensor."""

    minimum: float
    maximum: float
    size: int
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
        tally = _tally_other(flat)
    elif flat.size > _FEW_ELEMENTS:
        tally = _tally_many(flat.view(np.float32))
    else:
        tally = _tally_few(flat.view(np.float32))
    limits, counts = _trimmed(tally.counts)
    numbers = (tally.minimum, tally.maximum, flat.size, tally.total, tally.total_of_squares)
    return Histogram(*numbers, limits, counts)


class _Tally(NamedTuple):
    counts: NDArray[np.int64]
    minimum: float
    maximum: float
    total: float
    total_of_squares: float


def _tally_many(flat: NDArray[np.float32]) -> _Tally:
    threads = min(_MOST_THREADS, os.cpu_count() or 1, -(-flat.size // _SHARE_ELEMENTS))
    if threads == 1:
        return _tally_share(flat)
    with ThreadPoolExecutor(threads) as pool:
        shares = list(pool.map(_tally_share, np.array_split(flat, threads)))
    return _sum_up(shares)


def _tally_share(flat: NDArray[np.float32]) -> _Tally:
    tables = _tables()
    by_cell = np.zeros(_CELLS, dtype=np.int64)
    index = np.empty(_CHUNK_ELEMENTS, dtype=np.intp)
    tallies = []
    # The figures themselves show NaN and infinities.
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _CHUNK_ELEMENTS):
            chunk = np.ascontiguousarray(flat[start : start + _CHUNK_ELEMENTS])
            cells = _find_cells(chunk, index[: chunk.size])
            by_cell += np.bincount(cells, minlength=_CELLS)
            tallies.append(_tally_numbers(chunk))
    counts = np.zeros(tables.edges.size, dtype=np.int64)
    np.add.at(counts, tables.bins, by_cell)
    return _sum_up(tallies)._replace(counts=counts[:-1])


def _find_cells(chunk: NDArray[np.float32], cells: NDArray[np.intp]) -> NDArray[np.intp]:
    """The cell of each value, in which only values of its bin are left."""
    bits = chunk.view(np.uint32)
    np.copyto(cells, bits >> _REST_BITS)
    np.copyto(cells, (bits + _tables().shifts.take(cells)) >> _REST_BITS)
    return cells


def _tally_few(flat: NDArray[np.float32]) -> _Tally:
    tables, chunk = _tables(), np.ascontiguousarray(flat)
    with np.errstate(all="ignore"):
        bins = tables.bins.take(_find_cells(chunk, np.empty(chunk.size, dtype=np.intp)))
        counts = np.bincount(bins, minlength=tables.edges.size)
        return _tally_numbers(chunk)._replace(counts=counts[:-1])


def _tally_numbers(chunk: NDArray[np.floating]) -> _Tally:
    wide = chunk.astype(np.float64, copy=False)
    # Not `dot`: BLAS starts its threads for it, which wait for each other on busy cores.
    squares = np.einsum("i,i->", wide, wide)
    none = np.zeros(1, dtype=np.int64)
    return _Tally(none, float(chunk.min()), float(chunk.max()), float(wide.sum()), float(squares))


def _tally_other(flat: NDArray[np.generic]) -> _Tally:
    with np.errstate(all="ignore"):
        values = flat.astype(np.float64)
        tally = _tally_numbers(values)
    finite = values[np.isfinite(values)]
    counts = np.histogram(finite, bins=_tables().edges)[0].astype(np.int64)
    return tally._replace(counts=counts)


def _sum_up(tallies: list[_Tally]) -> _Tally:
    counts, minima, maxima, totals, squares = zip(*tallies, strict=True)
    # NumPy's, since Python's min and max pass over a NaN or not, depending on its position.
    extremes = float(np.min(minima)), float(np.max(maxima))
    return _Tally(np.sum(counts, axis=0), *extremes, sum(totals), sum(squares))


class _Tables(NamedTuple):
    edges: NDArray[np.float64]
    shifts: NDArray[np.uint32]
    """Cell → what to add to the bits of a value in it; 0 where no edge runs through."""
    bins: NDArray[np.intp]
    """Cell → the bin it is in; one beyond the last where there is none."""


@cache
def _tables() -> _Tables:
    positive = []
    edge = _SMALLEST_EDGE
    while edge < _LARGEST_EDGE:
        positive.append(edge)
        edge *= _GROWTH
    edges = np.array([*(-edge for edge in reversed(positive)), 0.0, *positive])
    first = (np.arange(_CELLS, dtype=np.uint32) << _REST_BITS).view(np.float32)
    with np.errstate(all="ignore"):
        bins = np.searchsorted(edges, first.astype(np.float64), side="right") - 1
    # Infinities and NaN belong to no bin.
    outside = (bins < 0) | (bins >= edges.size - 1) | ~np.isfinite(first)
    return _Tables(edges, _make_shifts(positive), np.where(outside, edges.size - 1, bins))


def _make_shifts(positive: list[float]) -> NDArray[np.uint32]:
    # A bin begins with its edge, so of negative values those below the edge are beyond it.
    above = _first_floats(np.array(positive), or_equal=True)
    below = _first_floats(np.array([0.0, *positive]), or_equal=False)
    firsts = np.concatenate((above.view(np.uint32), below.view(np.uint32) | np.uint32(1 << 31)))
    shifts = np.zeros(_CELLS, dtype=np.uint32)
    shifts[firsts >> _REST_BITS] = -firsts % _CELL_WIDTH
    return shifts


def _first_floats(edges: NDArray[np.float64], *, or_equal: bool) -> NDArray[np.float32]:
    """The smallest 32-bit floats that are greater than the edges, or equal to them."""
    near = edges.astype(np.float32)
    is_short = near < edges if or_equal else near <= edges
    return np.where(is_short, np.nextafter(near, np.float32(np.inf)), near)


def _trimmed(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The buckets that hold something, and an empty one before them that gives the first edge."""
    edges = _tables().edges
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        return edges[:1], np.zeros(1)
    first, last = int(filled[0]), int(filled[-1])
    padded = np.concatenate(([0], counts))
    return edges[first : last + 2], padded[first : last + 2].astype(np.float64)
