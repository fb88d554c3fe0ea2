"""The losses of a run, step by step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stoker.contract.record import Record
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors import SavedTensors
from stoker.debugging.thinning import thin
from stoker.errors import TensorMissing, TensorsUnreadable

MOST_POINTS = 400
"""Of one mode: a page is that many pixels wide, and reading takes time at the end of a job."""

MOST_CURVES = 8


class Curve(Record):
    """One loss in one mode."""

    name: str
    mode: Mode
    points: tuple[tuple[int, float], ...]
    """Global step and loss, rising; a loss may be infinite or not a number."""


def read_curves(
    saved: SavedTensors, *, besides: Collection[int] = (), most_points: int = MOST_POINTS
) -> list[Curve]:
    """The losses that were saved, of many steps only some.

    Args:
        saved: the run.
        besides: steps that are not to be left out.
        most_points: how many steps of a mode are looked at.
    """
    curves = []
    for mode in MODES:
        points: dict[str, list[tuple[int, float]]] = {}
        for step in _choose(saved.steps(mode), besides, most_points):
            for name, loss in _losses(saved, step).items():
                points.setdefault(name, []).append((step, loss))
        curves += [Curve(name=n, mode=mode, points=tuple(p)) for n, p in points.items()]
    # The longest first: a loss that came once is no curve.
    return sorted(curves, key=lambda curve: -len(curve.points))[:MOST_CURVES]


def _choose(steps: Sequence[int], besides: Collection[int], most: int) -> list[int]:
    return sorted({*thin(steps, most), *set(besides).intersection(steps)})


def _losses(saved: SavedTensors, step: int) -> dict[str, float]:
    """Name → the mean over its elements and workers; nothing of a step that is damaged."""
    found: dict[str, list[float]] = {}
    try:
        for tensor in saved.at(step).needed("losses"):
            found.setdefault(tensor.name, []).append(tensor.reduction("mean"))
    except (TensorMissing, TensorsUnreadable, OSError):
        return {}
    return {name: sum(values) / len(values) for name, values in found.items()}
