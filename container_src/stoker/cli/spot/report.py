"""What `stoker simulate-spot` says: a table with a bar for each interval, or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from stoker.cli.spot.simulation import Forecast, Work
from stoker.machine.units import show_seconds

BLOCKS = "█▒░"
"""How lost time, saving and starts are drawn, where the terminal can."""

PLAIN_BLOCKS = "#+-"
"""The same in ASCII."""

_BAR_WIDTH = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """What an hour costs, in any currency."""

    spot: float | None
    """Of a spot machine."""

    on_demand: float | None
    """Of one that is never interrupted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All that was found out about one job."""

    work: Work
    """What it has to do."""

    interruptions: str
    """Where the interruptions come from, for people."""

    daly_seconds: float
    """The interval the formula of Young and Daly gives."""

    forecasts: Sequence[Forecast]
    """By interval, the shortest first."""

    prices: Prices
    """For the costs."""

    @property
    def best(self) -> Forecast:
        """The interval that finishes soonest."""
        return min(self.forecasts, key=lambda f: (f.finish_seconds, f.billed_seconds))

    def cost(self, seconds: float) -> float | None:
        """What some time on a spot machine costs, if a price is known."""
        return None if self.prices.spot is None else self.prices.spot * seconds / 3600

    @property
    def on_demand_cost(self) -> float | None:
        """What the work costs on a machine that is never interrupted, without any checkpoint."""
        seconds = self.work.restart_cost_seconds + self.work.seconds
        return None if self.prices.on_demand is None else self.prices.on_demand * seconds / 3600


def make_json(report: Report) -> str:
    """The report for programs; a job that never finishes has null there."""

    def row(forecast: Forecast) -> dict[str, object]:
        numbers = {**asdict(forecast), "cost": report.cost(forecast.billed_seconds)}
        never = [name for name, value in numbers.items() if value and not math.isfinite(value)]
        return {**numbers, **dict.fromkeys(never)}

    return json.dumps(
        {
            "work": {**asdict(report.work), "work_seconds": report.work.seconds},
            "interruptions": report.interruptions,
            "young_daly_seconds": report.daly_seconds,
            "best_interval_seconds": report.best.interval_seconds,
            "on_demand_cost": report.on_demand_cost,
            "intervals": [row(forecast) for forecast in report.forecasts],
        },
        indent=2,
    )


def render(report: Report, *, blocks: str = BLOCKS) -> str:
    """The report for people: assumptions, table, what follows from it."""
    work = report.work
    head = [
        f"{work.steps:,} steps of {show_seconds(work.step_seconds)}:"
        f" {show_seconds(work.seconds)} of work; a save costs"
        f" {show_seconds(work.save_cost_seconds)},"
        f" a start {show_seconds(work.restart_cost_seconds)}",
        f"interruptions: {report.interruptions}",
        "",
    ]
    return "\n".join([*head, *_table(report, blocks), "", *_conclusions(report)])


def _table(report: Report, blocks: str) -> list[str]:
    titles = ("save every", "finish", "9 of 10 by", "lost", "saving", "starts", "billed", "cost")
    rows = [titles, *(_row(report, forecast) for forecast in report.forecasts)]
    if report.prices.spot is None:
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    marks = ["*" if forecast is report.best else " " for forecast in report.forecasts]
    bars = _bars(report.forecasts, blocks)
    body = [f"{m} {line}  {bar}" for m, line, bar in zip(marks, lines[1:], bars, strict=True)]
    legend = f"{blocks[0]} lost {blocks[1]} saving {blocks[2]} starts"
    return [f"  {lines[0]}  {legend}", *body]


def _row(report: Report, forecast: Forecast) -> tuple[str, ...]:
    cost = report.cost(forecast.billed_seconds)
    times = (
        forecast.interval_seconds,
        forecast.finish_seconds,
        forecast.finish_90_seconds,
        forecast.lost_seconds,
        forecast.saving_seconds,
        forecast.restart_seconds,
        forecast.billed_seconds,
    )
    shown = "–" if cost is None else f"{cost:,.2f}" if math.isfinite(cost) else "never"
    return (*map(show_seconds, times), shown)


def _bars(forecasts: Sequence[Forecast], blocks: str) -> list[str]:
    """What the machines do other than the work, to one scale; bars far too long are cut short."""
    rows = [(f.lost_seconds, f.saving_seconds, f.restart_seconds) for f in forecasts]
    scale = min(max(map(sum, rows)), 8 * min(map(sum, rows))) or 1.0
    bars = []
    for row in rows:
        widths = [round(seconds / scale * _BAR_WIDTH) for seconds in row]
        bar = "".join(b * min(w, 2 * _BAR_WIDTH) for b, w in zip(blocks, widths, strict=True))
        bars.append(bar if len(bar) <= _BAR_WIDTH + 2 else bar[:_BAR_WIDTH] + "…")
    return bars


def _conclusions(report: Report) -> list[str]:
    best = report.best
    if not math.isfinite(best.finish_seconds):
        return ["with none of these intervals does the job finish: save more often"]
    lines = [
        f"* best: save every {show_seconds(best.interval_seconds)};"
        f" finished after {show_seconds(best.finish_seconds)} with"
        f" {best.interruptions:.1f} interruptions"
        f" (Young/Daly: {show_seconds(report.daly_seconds)})"
    ]
    cost, on_demand = report.cost(best.billed_seconds), report.on_demand_cost
    if cost is not None and on_demand:
        saved = f"{1 - cost / on_demand:.0%} saved" if cost < on_demand else "nothing saved"
        lines.append(f"  cost {cost:,.2f}, on demand {on_demand:,.2f}: {saved}")
    return lines
