"""Reductions of tensors where they are: read once, in pieces that stay in the cache."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

_PIECE = 128 << 10
"""Elements at a time: several passes over 512 KiB cost little more than one over all."""
_SMALL = 8 << 10
"""Up to here NumPy adds up faster than torch, which has more to prepare."""

Array = NDArray[np.floating[Any]]


def reduce(tensor: torch.Tensor, names: tuple[str, ...]) -> dict[str, float]:
    """Several reductions of one tensor in host memory, as smdebug's hook for PyTorch makes them.

    That is, `std` and `variance` divide by one less than the number of elements. Half precision
    is added up in single precision, which smdebug does not: its sums overflow.

    Args:
        tensor: of any shape; an empty one gives NaN, but sums and norms of 0.
        names: `min`, `abs_mean`, `l2_norm`, …
    """
    array = _flat(tensor).numpy()
    asked, asked_of_magnitudes = _asked(names)
    with np.errstate(all="ignore"):  # infinities and NaN are what a debugger is for
        plain = _sums(array, asked, is_absolute=False)
        magnitudes = _sums(array, asked_of_magnitudes, is_absolute=True)
        if asked.squares and math.isnan(plain.squares):
            plain = plain._replace(norm=_plain_norm(array))
    return {name: _FROM_SUMS[name](plain, magnitudes) for name in names}


def reduce_on_device(tensor: torch.Tensor, names: Iterable[str]) -> torch.Tensor:
    """The same of a tensor elsewhere, as one tensor there, without waiting for it."""
    flat = _flat(tensor)
    found = [_ON_DEVICE[name.removeprefix("abs_")](_signed(flat, name)) for name in names]
    return torch.stack([value.double() for value in found])


class _Sums(NamedTuple):
    """What everything else follows from, of numbers or of their magnitudes."""

    size: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Of the distances from the mean."""
    least: float = math.inf
    most: float = -math.inf
    product: float = 1.0
    norm: float | None = None
    """Only where it does not follow from the others: nothing is at a distance from infinity."""


class _Asked(NamedTuple):
    """Which of them have to be made."""

    total: bool
    squares: bool
    bounds: bool
    product: bool


@functools.cache
def _asked(names: tuple[str, ...]) -> tuple[_Asked, _Asked]:
    def asked(total: set[str], squares: set[str], bounds: set[str], product: set[str]) -> _Asked:
        wanted = set(names)
        return _Asked(
            total=bool(wanted & (total | squares)),
            squares=bool(wanted & squares),
            bounds=bool(wanted & bounds),
            product=bool(wanted & product),
        )

    norms = {"l2_norm", "abs_l2_norm"}
    plain = asked(
        {"mean", "sum"},
        {"std", "variance", *norms},
        {"min", "max", "abs_max"},
        {"prod", "abs_prod"},
    )
    magnitudes = asked(
        {"abs_mean", "abs_sum", "l1_norm", "abs_l1_norm"},
        {"abs_std", "abs_variance"},
        {"abs_min"},
        set(),
    )
    return plain, magnitudes


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = tensor.abs()
    elif not tensor.is_floating_point():
        tensor = tensor.double()
    elif tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    # Order does not matter, so pictures with their channels last are read as they lie.
    if tensor.dim() == 4 and not tensor.is_contiguous():
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(-1)


def _sums(array: Array, asked: _Asked, *, is_absolute: bool) -> _Sums:
    if not any(asked) or not array.size:
        return _Sums(size=array.size, least=math.nan, most=math.nan)
    scratch = np.empty(min(array.size, _PIECE), array.dtype)
    sums = _Sums()
    for start in range(0, array.size, _PIECE):
        piece = array[start : start + _PIECE]
        spare = scratch[: piece.size]
        if is_absolute:
            piece = np.abs(piece, out=spare)
        made = _of_piece(piece, asked, spare)
        sums = _joined(sums, made) if sums.size else made
    return sums


def _plain_norm(array: Array) -> float:
    pieces = (array[start : start + _PIECE] for start in range(0, array.size, _PIECE))
    return math.sqrt(sum(float(np.dot(piece, piece)) for piece in pieces))


def _of_piece(piece: Array, asked: _Asked, spare: Array) -> _Sums:
    least, most = (float(piece.min()), float(piece.max())) if asked.bounds else (0.0, 0.0)
    product = float(piece.prod()) if asked.product else 1.0
    total = _total(piece) if asked.total else 0.0
    squares = 0.0
    if asked.squares:
        distances = np.subtract(piece, total / piece.size, out=spare, dtype=piece.dtype)
        squares = float(np.dot(distances, distances))
    return _Sums(piece.size, total, squares, least, most, product)


def _total(piece: Array) -> float:
    # Both add up in a tree, so that errors do not.
    return float(piece.sum() if piece.size <= _SMALL else torch.from_numpy(piece).sum())


def _joined(one: _Sums, other: _Sums) -> _Sums:
    size = one.size + other.size
    apart = other.total / other.size - one.total / one.size
    return _Sums(
        size,
        one.total + other.total,
        # Two means differ: what that adds to the sum of squares (Chan, Golub and LeVeque, 1979).
        one.squares + other.squares + apart * apart * one.size * other.size / size,
        # min() and max() would lose a NaN.
        one.least if one.least < other.least or math.isnan(one.least) else other.least,
        one.most if one.most > other.most or math.isnan(one.most) else other.most,
        one.product * other.product,
    )


def _mean(sums: _Sums) -> float:
    return sums.total / sums.size if sums.size else math.nan


def _variance(sums: _Sums) -> float:
    if sums.size < 2:
        return 0.0 if sums.size and math.isfinite(sums.total) else math.nan
    return sums.squares / (sums.size - 1)


def _norm(sums: _Sums) -> float:
    if sums.norm is not None:
        return sums.norm
    # Both are positive: nothing is lost by putting them together again.
    return math.sqrt(sums.squares + (sums.total * _mean(sums) if sums.size else 0.0))


_FROM_SUMS: dict[str, Callable[[_Sums, _Sums], float]] = {
    "min": lambda plain, _: plain.least,
    "max": lambda plain, _: plain.most,
    "mean": lambda plain, _: _mean(plain),
    "sum": lambda plain, _: plain.total,
    "prod": lambda plain, _: plain.product,
    "variance": lambda plain, _: _variance(plain),
    "std": lambda plain, _: math.sqrt(_variance(plain)),
    "l1_norm": lambda _, magnitudes: magnitudes.total,
    "l2_norm": lambda plain, _: _norm(plain),
    "abs_min": lambda _, magnitudes: magnitudes.least,
    "abs_max": lambda plain, _: float(np.maximum(abs(plain.least), abs(plain.most))),
    "abs_mean": lambda _, magnitudes: _mean(magnitudes),
    "abs_sum": lambda _, magnitudes: magnitudes.total,
    "abs_prod": lambda plain, _: abs(plain.product),
    "abs_variance": lambda _, magnitudes: _variance(magnitudes),
    "abs_std": lambda _, magnitudes: math.sqrt(_variance(magnitudes)),
    "abs_l1_norm": lambda _, magnitudes: magnitudes.total,
    "abs_l2_norm": lambda plain, _: _norm(plain),
}


def _signed(flat: torch.Tensor, name: str) -> torch.Tensor:
    return flat.abs() if name.startswith("abs_") else flat


_ON_DEVICE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "min": lambda flat: flat.min() if flat.numel() else flat.new_tensor(math.nan),
    "max": lambda flat: flat.max() if flat.numel() else flat.new_tensor(math.nan),
    "mean": lambda flat: flat.mean(),
    "sum": lambda flat: flat.sum(),
    "prod": lambda flat: flat.prod(),
    "variance": lambda flat: flat.var(correction=int(flat.numel() > 1)),
    "std": lambda flat: flat.std(correction=int(flat.numel() > 1)),
    "l1_norm": lambda flat: torch.linalg.vector_norm(flat, 1),
    "l2_norm": lambda flat: torch.linalg.vector_norm(flat),
}
