"""The figures behind the page's charts: thinned out, so that the page stays small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.bus.step_records import SPLIT
from stoker.bus.system_samples import (
    CPU_UTILIZATION,
    DISK,
    GPU_MEMORY_UTILIZATION,
    GPU_UTILIZATION,
    IO_WAIT,
    NETWORK,
    PRESSURE,
    SHM_UTILIZATION,
)
from stoker.debugging.profiler_rules.cpu_memory_increase import memory_percent
from stoker.debugging.profiler_rules.profile import Profile, Series, StepSeries
from stoker.report.figures.headroom import find_memory_lines
from stoker.report.figures.run import Run

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

MOST_POINTS = 1200
"""Of one line: no screen shows more, and zooming by ten still shows some."""

MOST_VALUES = 150_000
"""Of all lines together, so that the page of many hosts stays below its size."""

_MOST_PHASES = 300
_MOST_MEMORY_LINES = 10
_MOST_METRICS = 8


def make_charts(run: Run) -> dict[str, Any]:
    """Everything that the page's script draws, as JSON."""
    profile = run.profile
    first, last = profile.first, profile.last
    if first is None or last is None:
        empty: dict[str, Any] = {"hosts": [], "steps": [], "phases": [], "memory": []}
        return {"start": 0, "end": 0, **empty, "metrics": []}
    lines = sum(len(_figures(profile, node)) + 4 for node in profile.nodes) or 1
    points = int(min(MOST_POINTS, max(60, MOST_VALUES / 2 / lines)))
    return {
        "start": first,
        "end": last,
        "hosts": [
            {"name": node, "charts": _make_host(profile, node, points)} for node in profile.nodes
        ],
        "steps": [_make_steps(one) for one in _shown_ranks(profile)],
        "parts": _make_parts(_shown_ranks(profile)),
        "phases": _make_phases(profile),
        "memory": [
            {"name": node, "charts": _make_memory(profile, node, points)} for node in profile.nodes
        ],
        "metrics": _make_metrics(run.metrics),
    }


def thin(series: Series, points: int) -> dict[str, list[float | None]]:
    """Mean and highest value of equal stretches of time; None where nothing was measured."""
    times, values = series.times, series.values
    if len(times) <= points:
        return {
            "times": [_short(t) for t in times],
            "means": [_short(v) for v in values],
            "highs": [],
        }
    # To the next float behind the end: else the last sample would be in no stretch.
    edges = np.linspace(times[0], np.nextafter(times[-1], np.inf), points + 1)
    place = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, points - 1)
    counts = np.bincount(place, minlength=points)
    sums = np.bincount(place, weights=values, minlength=points)
    highs = np.full(points, -np.inf)
    # Not highs[place] = …: that keeps one of several samples of the same stretch.
    np.maximum.at(highs, place, values)
    middle = (edges[:-1] + edges[1:]) / 2
    return {
        "times": [_short(t) for t in middle],
        "means": [_short(s / c) if c else None for s, c in zip(sums, counts, strict=True)],
        "highs": [_short(h) if c else None for h, c in zip(highs, counts, strict=True)],
    }


def _figures(profile: Profile, node: str) -> list[tuple[str, str, str, Series]]:
    """Chart, unit, line and figure."""
    found: list[tuple[str, str, str, Series | None]] = [
        ("CPU", "%", "all cores", profile.cpu(node)),
        ("CPU", "%", "I/O wait", profile.total(node, IO_WAIT)),
        ("Memory", "%", "container", memory_percent(profile, node)),
        ("Memory", "%", "shared memory", profile.one(node, SHM_UTILIZATION)),
    ]
    cores = profile.devices(node, CPU_UTILIZATION)
    if 1 < len(cores) <= 8:
        found += [("Cores", "%", name, series) for name, series in cores.items()]
    for dimension, chart in ((GPU_UTILIZATION, "GPU"), (GPU_MEMORY_UTILIZATION, "GPU memory")):
        found += [(chart, "%", n, s) for n, s in profile.devices(node, dimension).items()]
    for name in ("cpu some", "memory some", "io some"):
        series = profile.samples.get(node, {}).get((PRESSURE, name))
        found.append(("Waiting (PSI)", "%", name.partition(" ")[0], series))
    for dimension, chart in ((NETWORK, "Network"), (DISK, "Disk")):
        for name, series in profile.devices(node, dimension).items():
            if series.values.any():
                found.append((chart, "B/s", name.removesuffix("BytesPerSecond").lower(), series))
    return [(c, u, n, s) for c, u, n, s in found if s is not None and len(s)]


def _make_host(profile: Profile, node: str, points: int) -> list[dict[str, Any]]:
    charts: dict[str, dict[str, Any]] = {}
    for chart, unit, name, series in _figures(profile, node):
        known = charts.setdefault(chart, {"title": chart, "unit": unit, "lines": []})
        known["lines"].append({"name": name, **thin(series, points)})
    return list(charts.values())


def _make_memory(profile: Profile, node: str, points: int) -> list[dict[str, Any]]:
    """Bytes used below their limits, of a host and of its ranks."""
    return [
        {
            "title": chart,
            "unit": "B",
            "lines": [
                {"name": name, **thin(series, points)}
                for name, series in list(lines.items())[:_MOST_MEMORY_LINES]
            ],
        }
        for chart, lines in find_memory_lines(profile, node).items()
    ]


def _make_metrics(
    metrics: Mapping[str, Sequence[tuple[float, float]]],
) -> list[dict[str, Any]]:
    """A chart for each: their scales differ."""
    charts = []
    for name, points in list(metrics.items())[:_MOST_METRICS]:
        known = sorted(point for point in points if all(map(math.isfinite, point)))
        if known:
            times, values = np.array(known).T
            line = {"name": name, **thin(Series(times=times, values=values), MOST_POINTS)}
            charts.append({"title": name, "unit": "", "lines": [line]})
    return charts


def _shown_ranks(profile: Profile) -> list[StepSeries]:
    """At most eight: the slowest and the fastest of many."""
    ranks = profile.steps_of("TRAIN")
    if len(ranks) > 8:
        ranks = sorted(ranks, key=lambda one: float(np.median(one.each)))
        ranks = [*ranks[:4], *ranks[-4:]]
    return [*ranks, *profile.steps_of("EVAL")[: max(0, 8 - len(ranks))]]


def _make_steps(one: StepSeries) -> dict[str, Any]:
    series = thin(_with_pauses(one, one.each), MOST_POINTS)
    tops = thin(_with_pauses(one, one.longest), MOST_POINTS)
    name = one.name if one.mode == "TRAIN" else f"{one.name} evaluation"
    return {"name": name, **series, "highs": tops["highs"] or tops["means"]}


def _with_pauses(one: StepSeries, values: Floats) -> Series:
    """No line is drawn over an evaluation, or whatever else passes between two steps."""
    ends = one.ends
    pauses = np.flatnonzero(one.starts[1:] - ends[:-1] > 10 * np.median(one.seconds)) + 1
    if len(one) + len(pauses) > MOST_POINTS:  # then the figure of a stretch is drawn
        return Series(times=one.starts, values=values)
    times = np.insert(one.starts, pauses, ends[pauses - 1])
    return Series(times=times, values=np.insert(values, pauses, np.nan))


def _make_parts(ranks: Sequence[StepSeries], stretches: int = 120) -> dict[str, Any]:
    """How steps of the first rank are made up, over time: a stack."""
    training = [one for one in ranks if one.mode == "TRAIN"]
    if not training:
        return {"times": [], "ends": [], "parts": []}
    one = min(training, key=lambda each: (each.rank, each.node))
    # By the number of steps, not by time: a pause would make stretches without any.
    groups = np.array_split(np.arange(len(one)), min(stretches, len(one)))
    rest = one.seconds - sum((one.part(name) for name in SPLIT), np.zeros(len(one)))
    parts: Mapping[str, Floats] = {**{name: one.part(name) for name in SPLIT}, "other": rest}
    return {
        "name": one.name,
        "ends": [_short(float(one.ends[group[-1]])) for group in groups],
        "times": [_short(float(one.starts[group[0]])) for group in groups],
        "parts": [
            {
                "name": name.replace("_", " "),
                "values": [
                    _short(max(0.0, float(values[group].sum() / one.counts[group].sum())))
                    for group in groups
                ],
            }
            for name, values in parts.items()
        ],
    }


def _make_phases(profile: Profile) -> list[dict[str, Any]]:
    """Bands behind the timelines: what the launcher did, evaluations and checkpoints."""
    bands: list[dict[str, Any]] = [
        {"kind": phase.phase, "start": phase.start, "end": phase.end, "host": phase.host}
        for phase in profile.phases
        if phase.phase != "training"
    ]
    for one in profile.steps:
        if one.mode == "EVAL" and one.rank == 0:
            bands += _joined(one.starts, one.ends, "evaluation", one.node)
        saves = one.part("checkpoint")
        if one.mode == "TRAIN" and one.rank == 0 and (saves > 0).any():
            chosen = saves > 0
            bands += _joined(
                # A step's record says how long it saved, not when: loops save at the end of a
                # step.
                one.ends[chosen] - saves[chosen],
                one.ends[chosen],
                "checkpoint",
                one.node,
            )
    # The longest first: shorter ones are drawn over them, and left out if there are too many.
    bands.sort(key=lambda band: band["start"] - band["end"])
    return [
        {**band, "start": _short(band["start"]), "end": _short(band["end"])}
        for band in bands[:_MOST_PHASES]
    ]


def _joined(starts: Floats, ends: Floats, kind: str, host: str) -> list[dict[str, Any]]:
    """Those that follow each other directly as one."""
    bands: list[dict[str, Any]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if bands and start - bands[-1]["end"] < 1.0:
            bands[-1]["end"] = end
        else:
            bands.append({"kind": kind, "start": start, "end": end, "host": host})
    return bands


def _short(value: float) -> float | None:
    """Few digits; times keep their milliseconds."""
    if not math.isfinite(value):
        return None
    return round(value, 3) if abs(value) >= 1e6 else float(f"{value:.4g}")
