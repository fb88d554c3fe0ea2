"""The forecasts as a picture: an SVG written by hand, two panels over the same intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from stoker.cli.spot.report import Report
from stoker.cli.spot.simulation import Forecast
from stoker.machine.units import show_seconds

_WIDTH, _HEIGHT = 860, 620
_LEFT, _RIGHT = 84, 24
_TOP_PANEL = (92, 330)
_BOTTOM_PANEL = (392, 540)
_INK, _FAINT, _BLUE, _BAND = "#1f2933", "#d5dbe1", "#2563a8", "#c9dcf0"
_PARTS = (("lost", "#c8452f"), ("saving", "#e0a030"), ("starts", "#8a97a5"))
_TOO_LATE = 2  # an interval that finishes so many times later would flatten the others
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.small{font-size:12px;fill:#52606d}"
    ".title{font-size:17px;font-weight:600}"
)


def make_svg(report: Report) -> str:
    """The picture: finish times above, the time that is not work below."""
    soonest = report.best.finish_seconds
    shown = [f for f in report.forecasts if f.finish_seconds <= _TOO_LATE * soonest]
    shown = shown if math.isfinite(soonest) else []
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        f' viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 34, "How often to save", kind="title"),
        _text(_LEFT, 56, _subtitle(report), kind="small"),
    ]
    if shown:
        parts += [*_finish_panel(report, shown), *_overhead_panel(shown)]
        parts.append(_axis_title([f for f in report.forecasts if f not in shown]))
    else:
        parts.append(_text(_LEFT, 120, "With none of these intervals does the job finish."))
    return "\n".join([*parts, "</svg>\n"])


def _subtitle(report: Report) -> str:
    work = report.work
    return (
        f"{show_seconds(work.seconds)} of work, a save costs"
        f" {show_seconds(work.save_cost_seconds)}; {report.interruptions}"
    )


def _finish_panel(report: Report, shown: Sequence[Forecast]) -> list[str]:
    top, bottom = _TOP_PANEL
    low = report.work.seconds / 3600
    high = max(f.finish_90_seconds for f in shown) / 3600
    parts = [
        _text(_LEFT, top - 10, "hours to finish: expected, and nine runs of ten", kind="small")
    ]
    parts += _grid(_ticks(low, high), low, high, (top, bottom))

    def y(hours: float) -> float:
        return _scale(hours, low, high, bottom, top)

    xs = [_x(index, len(shown)) for index in range(len(shown))]
    expected = [(x, y(f.finish_seconds / 3600)) for x, f in zip(xs, shown, strict=True)]
    most = [(x, y(f.finish_90_seconds / 3600)) for x, f in zip(xs, shown, strict=True)]
    band = _points([*most, *reversed(expected)])
    parts.append(f'<polygon points="{band}" fill="{_BAND}" fill-opacity="0.6"/>')
    parts.append(
        f'<polyline points="{_points(expected)}" fill="none" stroke="{_BLUE}" stroke-width="2"/>'
    )
    for (x, height), forecast in zip(expected, shown, strict=True):
        best = forecast is report.best
        parts.append(
            f'<circle cx="{x:.1f}" cy="{height:.1f}" r="{6 if best else 3}" fill="{_BLUE}"/>'
        )
        if best:
            label = f"best: {show_seconds(forecast.finish_seconds)}"
            parts.append(_text(x, height - 14, label, anchor=_anchor(x)))
    return parts


def _overhead_panel(shown: Sequence[Forecast]) -> list[str]:
    top, bottom = _BOTTOM_PANEL
    rows = [(f.lost_seconds, f.saving_seconds, f.restart_seconds) for f in shown]
    high = max(max(map(sum, rows)) / 3600, 1e-9)
    parts = [
        _text(_LEFT, top - 10, "hours that are not work", kind="small"),
        *_legend(top),
    ]
    parts += _grid(_ticks(0, high), 0, high, (top, bottom))
    width = min((_WIDTH - _LEFT - _RIGHT) / len(shown) * 0.55, 46)
    for index, (forecast, row) in enumerate(zip(shown, rows, strict=True)):
        x, base = _x(index, len(shown)), float(bottom)
        for seconds, (_, color) in zip(row, _PARTS, strict=True):
            height = seconds / 3600 / high * (bottom - top)
            base -= height
            parts.append(
                f'<rect x="{x - width / 2:.1f}" y="{base:.1f}" width="{width:.1f}"'
                f' height="{height:.1f}" fill="{color}"/>'
            )
        label = show_seconds(forecast.interval_seconds)
        parts.append(_text(x, bottom + 20, label, anchor="middle", kind="small"))
    return parts


def _axis_title(left_out: Sequence[Forecast]) -> str:
    title = "time between saves"
    if left_out:
        others = ", ".join(show_seconds(f.interval_seconds) for f in left_out)
        title += f" (finish far later, not shown: {others})"
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return _text(middle, _BOTTOM_PANEL[1] + 46, title, anchor="middle")


def _legend(top: int) -> list[str]:
    parts = []
    for index, (name, color) in enumerate(_PARTS):
        x = _WIDTH - _RIGHT - 210 + index * 74
        parts.append(f'<rect x="{x}" y="{top - 20}" width="11" height="11" fill="{color}"/>')
        parts.append(_text(x + 16, top - 10, name, kind="small"))
    return parts


def _grid(ticks: Sequence[float], low: float, high: float, panel: tuple[int, int]) -> list[str]:
    top, bottom = panel
    parts = []
    for value in ticks:
        y = _scale(value, low, high, bottom, top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            f' stroke="{_FAINT}"/>'
        )
        parts.append(_text(_LEFT - 8, y + 4, f"{value:g}", anchor="end", kind="small"))
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers within a range."""
    rough = (high - low) / 4 or 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + index) * step, 12) for index in range(count)]


def _scale(value: float, low: float, high: float, start: float, end: float) -> float:
    return start + (value - low) / ((high - low) or 1.0) * (end - start)


def _x(index: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (index + 0.5) / count


def _anchor(x: float) -> str:
    return "start" if x < _WIDTH * 0.25 else "end" if x > _WIDTH * 0.75 else "middle"


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'
