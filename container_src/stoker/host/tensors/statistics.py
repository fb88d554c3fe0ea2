"""A tensor at one step in a few numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.contract.record import Record
from stoker.debugging.tensors import Tensor

_PLAIN = ("min", "max", "mean", "std")


class Statistics(Record):
    """Of the finite numbers; None is what cannot be known from what was saved."""

    step: int
    mode: str
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    nan_share: float | None = None
    """Of all elements, as are the next two."""
    inf_share: float | None = None
    zero_share: float | None = None
    reductions: Mapping[str, float] = {}
    """Others that were saved in place of the values, such as `abs_mean`."""

    @property
    def main(self) -> float | None:
        """The one number to draw, where there is room for one; a NaN among the values wins."""
        if self.nan_share:
            return math.nan
        return self.mean if self.mean is not None else next(iter(self.reductions.values()), None)


def make_statistics(tensor: Tensor, step: int, mode: str) -> Statistics:
    """From the values, or else from the reductions that were saved.

    Raises:
        TensorsUnreadable: the file is damaged.
    """
    if not tensor.has_value:
        saved = {name: tensor.reduction(name) for name in tensor.saved_reductions}
        plain: dict[str, Any] = {name: saved.pop(name, None) for name in _PLAIN}
        return Statistics(step=step, mode=mode, reductions=saved, **plain)
    array = tensor.value()
    if array.dtype.kind not in "biufc" or not array.size:
        return Statistics(step=step, mode=mode)
    with np.errstate(all="ignore"):  # numbers that are too large are what a debugger is for
        return Statistics(step=step, mode=mode, **_of_values(array))


def _of_values(array: NDArray[Any]) -> dict[str, Any]:
    """Complex numbers count by their magnitude."""
    if array.dtype.kind == "c":
        array = np.abs(array)
    nan_share = inf_share = 0.0
    zero_share = 1.0 - np.count_nonzero(array) / array.size
    if array.dtype.kind == "f":
        is_finite = np.isfinite(array)
        if not is_finite.all():
            nan_share = np.count_nonzero(np.isnan(array)) / array.size
            inf_share = 1.0 - np.count_nonzero(is_finite) / array.size - nan_share
            array = array[is_finite]
    shares = {"nan_share": nan_share, "inf_share": inf_share, "zero_share": zero_share}
    if not array.size:
        return {**shares, **dict.fromkeys(_PLAIN, None)}
    mean = float(array.mean(dtype=np.float64))
    std = float(array.std(dtype=np.float64)) if math.isfinite(mean) else None
    extremes = {"min": float(array.min()), "max": float(array.max())}
    return {**shares, **extremes, "mean": mean, "std": std}
