"""The losses of a run step by step, drawn as SVG with the steps at which rules fired."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors import SavedTensors
from stoker.debugging.thinning import thin
from stoker.errors import TensorMissing, TensorsUnreadable

MOST_POINTS = 400
"""Of one mode: a page is that many pixels wide, and reading takes time at the end of a job."""

MOST_CURVES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One loss in one mode."""

    name: str
    mode: Mode
    points: tuple[tuple[int, float], ...]
    """Global step and loss, rising; a loss may be infinite or not a number."""


def read_curves(
    saved: SavedTensors, *, required_steps: Collection[int] = (), most_points: int = MOST_POINTS
) -> list[Curve]:
    """The losses that were saved, of many steps only some.

    Args:
        saved: the run.
        required_steps: steps that are not to be left out.
        most_points: how many steps of a mode are looked at.
    """
    curves = []
    for mode in MODES:
        points: dict[str, list[tuple[int, float]]] = {}
        for step in _choose(saved.steps(mode), required_steps, most_points):
            for name, loss in _losses(saved, step).items():
                points.setdefault(name, []).append((step, loss))
        curves += [Curve(name=n, mode=mode, points=tuple(p)) for n, p in points.items()]
    # The longest first: a single loss is not a curve.
    return sorted(curves, key=lambda curve: -len(curve.points))[:MOST_CURVES]


def _choose(steps: Sequence[int], required_steps: Collection[int], most: int) -> list[int]:
    return sorted({*thin(steps, most), *set(required_steps).intersection(steps)})


def _losses(saved: SavedTensors, step: int) -> dict[str, float]:
    """Name → the mean over its elements and workers; nothing of a step that is damaged."""
    found: dict[str, list[float]] = {}
    try:
        for tensor in saved.at(step).needed("losses"):
            found.setdefault(tensor.name, []).append(tensor.reduction("mean"))
    except (TensorMissing, TensorsUnreadable, OSError):
        return {}
    return {name: sum(values) / len(values) for name, values in found.items()}


_WIDTH, _HEIGHT = 960, 300
_LEFT, _RIGHT, _BOTTOM, _TOP = 64, 16, 26, 14
_ROW = 17
_LONGEST_LABEL = 60
_LOGARITHMIC_FROM = 1000
"""Losses that differ by this factor need a logarithmic scale."""


def render_chart(curves: Sequence[Curve], marks: Mapping[int, Sequence[str]]) -> str:
    """The drawing; empty where there is nothing to draw.

    Args:
        curves: the losses.
        marks: step → the rules that fired there.
    """
    steps = [step for curve in curves for step, _ in curve.points]
    if not steps:
        return ""
    across = _Steps([*steps, *marks])
    up = _Losses([loss for curve in curves for _, loss in curve.points], rows=len(marks))
    height = up.bottom + _BOTTOM
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="losses over steps">',
        *_axes(across, up),
        *(_curve(curve, number, across, up) for number, curve in enumerate(curves)),
        *_marks(marks, across, up),
        "</svg>",
    ]
    return "".join(parts)


class _Steps:
    """Step → how far right."""

    def __init__(self, steps: Sequence[int]) -> None:
        self.first, self.last = min(steps), max(steps)

    def __call__(self, step: int) -> float:
        span = self.last - self.first
        share = (step - self.first) / span if span else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


class _Losses:
    """Loss → how far down; what is not finite goes to the upper edge."""

    def __init__(self, losses: Sequence[float], *, rows: int) -> None:
        finite = [loss for loss in losses if math.isfinite(loss)]
        self.low, self.high = min(finite, default=0.0), max(finite, default=1.0)
        self.is_logarithmic = self.low > 0 and self.high / self.low >= _LOGARITHMIC_FROM
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.top = _TOP + rows * _ROW
        self.bottom = self.top + _HEIGHT

    def __call__(self, loss: float) -> float:
        if not math.isfinite(loss):
            return self.top
        low, high, here = self.low, self.high, loss
        if self.is_logarithmic:
            low, high, here = math.log(low), math.log(high), math.log(loss)
        # Halves: what is as large as a float can be has a difference that is not.
        share = (here / 2 - low / 2) / (high / 2 - low / 2)
        return self.bottom - share * (_HEIGHT - _ROW)

    def ticks(self) -> list[float]:
        if self.is_logarithmic:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            every = max(1, (last - first) // 5 + 1)
            return [10.0**power for power in range(first, last + 1, every)]
        return [self.low + (self.high / 4 - self.low / 4) * part for part in range(5)]


def _axes(across: _Steps, up: _Losses) -> list[str]:
    lines = []
    for loss in up.ticks():
        y = up(loss)
        lines.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:.4g}</text>')
    y = up.bottom + 18
    lines.append(f'<text x="{_LEFT}" y="{y:.0f}">step {across.first}</text>')
    if across.last > across.first:
        end = _WIDTH - _RIGHT
        lines.append(f'<text x="{end}" y="{y:.0f}" text-anchor="end">{across.last}</text>')
    return lines


def _curve(curve: Curve, number: int, across: _Steps, up: _Losses) -> str:
    finite = [(across(step), up(loss)) for step, loss in curve.points if math.isfinite(loss)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in finite)
    line = f'<polyline class="curve c{number}" points="{path}"/>'
    if len(finite) == 1:
        [(x, y)] = finite
        line = f'<circle class="dot c{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    wild = [across(step) for step, loss in curve.points if not math.isfinite(loss)]
    crosses = "".join(f"M{x - 4:.1f} {up.top - 4}l8 8m-8 0l8 -8" for x in wild)
    return line + (f'<path class="wild" d="{crosses}"/>' if crosses else "")


def _marks(marks: Mapping[int, Sequence[str]], across: _Steps, up: _Losses) -> list[str]:
    """A line where rules fired; their names stand above the drawing, and above all lines."""
    lines, labels = [], []
    for row, step in enumerate(sorted(marks)):
        x, y = across(step), _TOP + row * _ROW
        names = ", ".join(marks[step])
        label = names if len(names) <= _LONGEST_LABEL else f"{names[: _LONGEST_LABEL - 1]}…"
        side, where = ("end", x - 6) if x > _WIDTH / 2 else ("start", x + 6)
        lines.append(f'<path class="mark" d="M{x:.1f} {y - 10}V{up.bottom}"/>')
        labels.append(
            f'<text class="fired" x="{where:.1f}" y="{y}" text-anchor="{side}">'
            f"{escape(label)} at {step}</text>"
        )
    return [*lines, *labels]
