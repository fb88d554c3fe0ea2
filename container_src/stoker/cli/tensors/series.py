"""A tensor over its steps: statistics of each step, and a curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.debugging.description import Description
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors import SavedTensors, Tensor
from stoker.debugging.thinning import thin
from stoker.errors import TensorsUnreadable


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One tensor of one worker."""

    name: str
    worker: str
    description: Description
    shape: tuple[int, ...] | None
    """At the last of the steps."""
    dtype: str
    saved_steps: int
    """How many there are; `points` may be of some of them."""
    points: tuple[Statistics, ...]
    problems: tuple[str, ...] = ()
    """Of steps whose files are damaged."""


def read_series(
    saved: SavedTensors, names: Sequence[str], *, mode: Mode | None, most_steps: int | None
) -> list[Series]:
    """The statistics of some tensors, each worker's by itself.

    Args:
        saved: the run.
        names: of the tensors.
        mode: steps of this one alone.
        most_steps: of each tensor, evenly spread; None: every step.
    """
    steps_of = _find_steps(saved, names, mode)
    wanted = {name: set(thin(steps, most_steps or len(steps))) for name, steps in steps_of.items()}
    drafts: dict[tuple[str, str], _Draft] = {}
    # Step by step, and not tensor by tensor: a step's index is then read once.
    for step in sorted(set().union(*wanted.values())):
        at = saved.at(step)
        for name in names:
            for tensor in at.all(name) if step in wanted.get(name, ()) else ():
                draft = drafts.setdefault((name, tensor.worker), _Draft())
                draft.add(tensor, step, at.mode)
    order = {name: index for index, name in enumerate(names)}
    return [
        drafts[name, worker].finish(
            name, worker, saved.chooser.describe(name), len(steps_of[name])
        )
        for name, worker in sorted(drafts, key=lambda key: (order[key[0]], key[1]))
    ]


def _find_steps(
    saved: SavedTensors, names: Sequence[str], mode: Mode | None
) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {name: [] for name in names}
    for step in saved.steps(mode):
        try:
            there = saved.at(step).names
        except TensorsUnreadable:
            continue  # `ls` tells of it
        for name in found.keys() & there:
            found[name].append(step)
    return {name: steps for name, steps in found.items() if steps}


class _Draft:
    def __init__(self) -> None:
        self._points: list[Statistics] = []
        self._problems: list[str] = []
        self._shape: tuple[int, ...] | None = None
        self._dtype = ""

    def add(self, tensor: Tensor, step: int, mode: str) -> None:
        try:
            self._points.append(make_statistics(tensor, step, mode))
            self._shape, self._dtype = tensor.shape, show_dtype(tensor)
        except TensorsUnreadable as error:
            self._problems.append(f"step {step}: {error.message}")

    def finish(self, name: str, worker: str, description: Description, saved_steps: int) -> Series:
        facts: dict[str, Any] = {"name": name, "worker": worker, "description": description}
        return Series(
            **facts,
            shape=self._shape,
            dtype=self._dtype,
            saved_steps=saved_steps,
            points=tuple(self._points),
            problems=tuple(self._problems),
        )


def show_dtype(tensor: Tensor) -> str:
    """`float32`, `text`, or which reductions were saved in place of the values.

    Raises:
        TensorsUnreadable: the file is damaged.
    """
    if not tensor.has_value:
        return "/".join(tensor.saved_reductions)
    dtype = tensor.dtype
    return "" if dtype is None else "text" if dtype.kind == "U" else str(dtype)


def show_kind(description: Description) -> str:
    """`output of ReLU`, `weight`."""
    of = description.module_class and f" of {description.module_class}"
    frozen = ", frozen" if description.is_frozen else ""
    return f"{description.kind}{of}{frozen}"


_PLAIN = ("min", "max", "mean", "std")


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
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
    reductions: Mapping[str, float] = field(default_factory=dict)
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
    # float16 ends at 65,504: its own sum would be infinite.
    mean = float(array.mean(dtype=np.float64))
    std = float(array.std(dtype=np.float64)) if math.isfinite(mean) else None
    extremes = {"min": float(array.min()), "max": float(array.max())}
    return {**shares, **extremes, "mean": mean, "std": std}


_BARS = "▁▂▃▄▅▆▇█"
_FLAT = "▄"
_NOT_FINITE = "✗"
_UNKNOWN = " "


def make_sparkline(values: Sequence[float | None], width: int) -> str:
    """At most so many letters; NaN and infinity are crosses, what is not known is a gap."""
    shown = thin(values, width)
    finite = [v for v in shown if v is not None and math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_letter(value, low, high) for value in shown)


def _letter(value: float | None, low: float, high: float) -> str:
    if value is None:
        return _UNKNOWN
    if not math.isfinite(value):
        return _NOT_FINITE
    # Halved first: the range of two large numbers may be infinite.
    span = high / 2 - low / 2
    if span <= 0:
        return _FLAT
    return _BARS[min(int((value / 2 - low / 2) / span * len(_BARS)), len(_BARS) - 1)]
