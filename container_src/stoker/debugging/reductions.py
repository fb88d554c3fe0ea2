"""smdebug's reductions of a tensor: one number each, in double precision.

A NaN anywhere gives NaN. `std` and `variance` are those of the whole population, as NumPy's and
smdebug's reader have them; hooks for PyTorch divide by one less (see `spread.py`). The norms are
of the tensor as one long vector, as torch's; smdebug's reader, asked for the norm of a saved
matrix, takes that of the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.errors import TensorMissing

_BASIC = ("min", "max", "mean", "std", "variance", "sum", "prod", "l1_norm", "l2_norm")
REDUCTIONS = (*_BASIC, *(f"abs_{name}" for name in _BASIC))

ABSOLUTE = tuple(n for n in REDUCTIONS if n.startswith("abs_") or n.endswith("_norm"))
"""Those of magnitudes: complex numbers have no others."""

_PIECE = 64 << 10
"""Elements at a time: as doubles they stay in the processor's cache."""

Pieces = Callable[[], Iterator[NDArray[np.float64]]]
"""Gives a tensor piece by piece, not to be changed; the next overwrites the one before."""


def make_reduction(array: NDArray[Any], name: str) -> float:
    """One reduction, named as in smdebug's settings.

    Raises:
        TensorMissing: there is no such reduction, or not of a tensor of this kind.

    Example:
        >>> make_reduction(np.array([3.0, -4.0]), "l2_norm")
        5.0
    """
    if name not in REDUCTIONS:
        raise TensorMissing(
            f"there is no reduction {name!r:.80}", fix=f"one of {', '.join(REDUCTIONS)}"
        )
    basic = name.removeprefix("abs_")
    is_absolute = name in ABSOLUTE
    if array.dtype.kind not in ("biufc" if is_absolute else "biuf"):
        raise TensorMissing(
            f"a tensor of type {array.dtype} has no {name}",
            fix="for complex numbers take one of abs_mean, abs_max, l2_norm, …",
        )
    if array.size == 0:
        return _OF_NOTHING.get(basic, math.nan)
    with np.errstate(all="ignore"):  # infinities and NaN are what a debugger is for
        if name in ("min", "max"):
            return float(getattr(array, name)())  # exact in any type, and quicker there
        return float(_FUNCTIONS[basic](_in_pieces(array, is_absolute), array.size))


def make_reductions(array: NDArray[Any], names: Iterable[str]) -> dict[str, float]:
    """Several reductions by name."""
    return {name: make_reduction(array, name) for name in names}


def _in_pieces(array: NDArray[Any], is_absolute: bool) -> Pieces:
    number = np.complex128 if array.dtype.kind == "c" else np.float64
    if array.size <= _PIECE:
        whole: NDArray[Any] = array.astype(number).reshape(-1)
        piece = np.abs(whole) if is_absolute else whole
        return lambda: iter((piece,))
    return lambda: _iterate(array, number, is_absolute)


def _iterate(
    array: NDArray[Any], number: type[np.generic], is_absolute: bool
) -> Iterator[NDArray[np.float64]]:
    room = np.empty(_PIECE, np.float64)
    # Whatever its layout in memory: as doubles, in the order that is quickest.
    iterator = np.nditer(
        array,
        flags=("external_loop", "buffered"),
        buffersize=_PIECE,
        order="K",
        op_dtypes=number,
        casting="unsafe",
    )
    piece: Any
    for piece in iterator:
        yield np.abs(piece, out=room[: piece.size]) if is_absolute else piece


def _sum(pieces: Pieces, size: int) -> float:
    return sum(float(np.add.reduce(piece)) for piece in pieces())


def _mean(pieces: Pieces, size: int) -> float:
    return _sum(pieces, size) / size


def _variance(pieces: Pieces, size: int) -> float:
    # Two passes: the difference of mean square and squared mean would cancel.
    mean = _mean(pieces, size)
    total = 0.0
    for piece in pieces():
        difference = piece - mean
        total += float(np.dot(difference, difference))
    return total / size


def _std(pieces: Pieces, size: int) -> float:
    return math.sqrt(_variance(pieces, size))


def _min(pieces: Pieces, size: int) -> float:
    return float(np.min([np.min(piece) for piece in pieces()]))  # keeps NaN, as min() does not


def _max(pieces: Pieces, size: int) -> float:
    return float(np.max([np.max(piece) for piece in pieces()]))


def _prod(pieces: Pieces, size: int) -> float:
    return float(np.prod([np.prod(piece) for piece in pieces()]))


def _l2_norm(pieces: Pieces, size: int) -> float:
    return math.sqrt(sum(float(np.dot(piece, piece)) for piece in pieces()))


_FUNCTIONS: dict[str, Callable[[Pieces, int], float]] = {
    "min": _min,
    "max": _max,
    "mean": _mean,
    "std": _std,
    "variance": _variance,
    "sum": _sum,
    "prod": _prod,
    "l1_norm": _sum,
    "l2_norm": _l2_norm,
}
_OF_NOTHING = {"sum": 0.0, "prod": 1.0, "l1_norm": 0.0, "l2_norm": 0.0}
