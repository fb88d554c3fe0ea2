"""The spread of a whole tensor, where the hook saved that of a sample.

smdebug's hook for PyTorch divides the squares by one less than the number of elements, and ours
does as it does; NumPy, and so a reader of saved values, divides by that number. The result of
a rule must not depend on whether another rule has the values saved, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

VARIANCE = ("variance", "mean", "l2_norm")
"""Saved together they are enough: the number of elements follows from them. The last two cost
nothing, for the variance is made from the same sums."""

_SPREADS = {"std", "variance", "abs_std", "abs_variance"}


def is_variance(reduction: str) -> bool:
    """Whether a reduction depends on what the squares were divided by."""
    return reduction in _SPREADS


def population_variance(
    name: str, saved: Mapping[str, float], shape: tuple[int, ...] | None = None
) -> float:
    """A saved `std` or `variance` as it is of all elements.

    Args:
        name: of the reduction; one with `abs_` is of the magnitudes.
        saved: the reductions of the tensor.
        shape: of the tensor, where it is known.

    Returns:
        The number as it was saved, if nothing tells how many elements there were.

    Example:
        >>> population_variance("variance", {"variance": 2.0, "mean": 1.0, "l2_norm": 2.0})
        1.0
    """
    number = saved[name]
    is_std = name.endswith("std")
    variance = number * number if is_std else number
    size = math.prod(shape) if shape is not None else _size(name, saved, variance)
    if not size or not math.isfinite(number):
        return number
    share = (size - 1) / size if size > 1 else 1.0  # of one element it is 0 in any case
    return number * (math.sqrt(share) if is_std else share)


def _size(name: str, saved: Mapping[str, float], variance: float) -> int:
    """How many elements there were; 0 where nothing tells.

    The norm's square is (n - 1) · variance + n · mean².
    """
    mean = saved.get("abs_mean" if name.startswith("abs_") else "mean", math.nan)
    norm = saved.get("l2_norm", math.nan)
    divisor = variance + mean * mean
    if not divisor > 0:
        return 0
    size = (norm * norm + variance) / divisor
    return round(size) if math.isfinite(size) else 0
