"""A tensor over its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.contract.record import Record
from stoker.debugging.description import Description
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors import SavedTensors, Tensor
from stoker.debugging.thinning import thin
from stoker.errors import TensorsUnreadable
from stoker.host.tensors.statistics import Statistics, make_statistics


class Series(Record):
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
