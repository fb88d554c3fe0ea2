"""Curves of tensors: as text, and as one page that opens offline."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker import __version__
from stoker.cli.tensors.listing import show_shape
from stoker.cli.tensors.series import Series, Statistics, make_sparkline, show_kind
from stoker.cli.tensors.showing import show_number
from stoker.machine.terminal import make_table
from stoker.pages.shell import make_page

MOST_STEPS = 200
"""Of a curve; more would not be seen."""
MOST_CHARTS = 400
MOST_LINES = 100
_DIGITS = 5  # a chart shows no more
_TEMPLATE = Path(__file__).with_suffix(".html")


def render_plot(series: Sequence[Series]) -> str:
    """A line for each tensor."""
    columns = shutil.get_terminal_size((120, 24)).columns
    names = [_title(one, series) for one in series]
    width = max(16, min(60, columns - max(map(len, names)) - 40))
    rows: list[tuple[str, ...]] = [
        ("tensor", "curve of the mean", "first", "last", "lowest", "highest")
    ]
    for name, one in zip(names, series, strict=True):
        values = [point.main for point in one.points]
        known = [v for v in values if v is not None]
        finite = [v for v in known if math.isfinite(v)]
        ends = (known[0], known[-1]) if known else (None, None)
        extremes = (min(finite, default=None), max(finite, default=None))
        numbers = [show_number(v) for v in (*ends, *extremes)]
        rows.append((name, make_sparkline(values, width), *numbers))
    return "\n".join(make_table(rows, right={2, 3, 4, 5}))


def render_plot_page(
    series: Sequence[Series], *, place: str, left_out: int, has_ended: bool
) -> str:
    """The page: a chart for each tensor, mean with the band between min and max."""
    facts = {
        "version": __version__,
        "place": place,
        "hasEnded": has_ended,
        "leftOut": left_out,
        "series": [_to_json(one, series) for one in _losses_first(series)],
    }
    return make_page(_TEMPLATE, title=f"Tensors of {place}", facts=facts)


def _losses_first(series: Sequence[Series]) -> list[Series]:
    kinds = ("loss", "scalar")
    return sorted(series, key=lambda one: one.description.kind not in kinds)


def _title(one: Series, among: Sequence[Series]) -> str:
    has_workers = len({other.worker for other in among}) > 1
    return f"{one.name} ({one.worker})" if has_workers else one.name


def _to_json(one: Series, among: Sequence[Series]) -> dict[str, Any]:
    def column(name: str) -> list[float | str | None]:
        return [_short(getattr(point, name)) for point in one.points]

    reductions = list(dict.fromkeys(name for p in one.points for name in p.reductions))
    return {
        "name": _title(one, among),
        "about": f"{show_kind(one.description)}, {show_shape(one.shape)} {one.dtype}",
        "kind": one.description.kind,
        "savedSteps": one.saved_steps,
        "problems": list(one.problems[:5]),
        "steps": [point.step for point in one.points],
        "modes": [point.mode[0] for point in one.points],
        **{name: column(name) for name in ("mean", "min", "max", "std")},
        "bad": [_bad_share(point) for point in one.points],
        "zero": column("zero_share"),
        "reductions": {
            name: [_short(p.reductions.get(name)) for p in one.points] for name in reductions
        },
    }


def _bad_share(point: Statistics) -> float | str | None:
    if point.nan_share is None or point.inf_share is None:
        return None
    return _short(point.nan_share + point.inf_share)


def _short(value: float | None) -> float | str | None:
    """As few letters as a picture needs; JSON has no NaN and infinity."""
    if value is None:
        return None
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else str(value)
