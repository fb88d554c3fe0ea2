"""A run as a trace in Chrome's format, which ui.perfetto.dev opens: steps, phases, machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from stoker.bus.step_records import SPLIT
from stoker.bus.system_samples import GPU_UTILIZATION, MEMORY_BYTES
from stoker.debugging.profiler_rules.profile import Event, Profile, Series, StepSeries

MOST_STEPS = 20_000
"""Of one process; of more, every second or third is left out."""

MOST_SAMPLES = 20_000

_PHASES, _STEPS, _PARTS, _FIRST_OPERATORS = 1, 1, 2, 3
_ORDER = {"TRAIN": "step", "EVAL": "evaluation"}


def render_trace(profile: Profile) -> str:
    """The whole trace as JSON."""
    return json.dumps({"traceEvents": list(make_trace(profile))}, separators=(",", ":"))


def make_trace(profile: Profile) -> Iterator[dict[str, Any]]:
    """The events: a process for each host, and one for each rank on it."""
    start = profile.first or 0.0
    for number, node in enumerate(profile.nodes, 1):
        yield _name("process_name", number, 0, node)
        yield from _make_phases(profile, node, number, start)
        yield from _make_counters(profile, node, number, start)
        own = [event for event in profile.events if event.node == node]
        yield from _make_operators(own, number, start)
    ranks: dict[str, list[StepSeries]] = {}
    for one in profile.steps:
        ranks.setdefault(one.name, []).append(one)
    for number, (name, series) in enumerate(ranks.items(), len(profile.nodes) + 1):
        yield _name("process_name", number, 0, name)
        yield _name("thread_name", number, _STEPS, "steps")
        yield _name("thread_name", number, _PARTS, "parts of a step")
        for one in series:
            yield from _make_steps(one, number, start)


def _make_phases(profile: Profile, node: str, pid: int, start: float) -> Iterator[dict[str, Any]]:
    yield _name("thread_name", pid, _PHASES, "launcher")
    for phase in profile.phases:
        if phase.host == node:
            words = phase.name or phase.phase
            yield _span(words, pid, _PHASES, phase.start - start, phase.end - phase.start)


def _make_counters(
    profile: Profile, node: str, pid: int, start: float
) -> Iterator[dict[str, Any]]:
    used = profile.samples.get(node, {}).get((MEMORY_BYTES, "used"))
    counters = {
        "CPU %": profile.cpu(node),
        "memory bytes": used,
        **{f"{name} %": s for name, s in profile.devices(node, GPU_UTILIZATION).items()},
    }
    for name, series in counters.items():
        for when, value in _thin(series):
            yield {
                "ph": "C",
                "name": name,
                "pid": pid,
                "ts": _us(when - start),
                "args": {"": value},
            }


def _thin(series: Series | None) -> Iterator[tuple[float, float]]:
    if series is None:
        return
    every = 1 + len(series) // MOST_SAMPLES
    yield from zip(series.times[::every].tolist(), series.values[::every].tolist(), strict=True)


def _make_operators(events: Sequence[Event], pid: int, start: float) -> Iterator[dict[str, Any]]:
    """Of the framework's timelines: a row for each phase."""
    rows: dict[str, int] = {}
    for event in events:
        if event.phase not in rows:
            rows[event.phase] = _FIRST_OPERATORS + len(rows)
            yield _name("thread_name", pid, rows[event.phase], event.phase)
        yield _span(event.name, pid, rows[event.phase], event.start - start, event.seconds)


def _make_steps(one: StepSeries, pid: int, start: float) -> Iterator[dict[str, Any]]:
    chosen = one.take(slice(None, None, 1 + len(one) // MOST_STEPS))
    parts = {name: chosen.part(name).tolist() for name in SPLIT}
    rows = zip(chosen.starts, chosen.seconds, chosen.numbers, chosen.counts, strict=True)
    for place, (begin, seconds, number, count) in enumerate(rows):
        at = float(begin) - start
        words = f"{_ORDER[one.mode]} {int(number)}"
        if count > 1:
            words += f" to {int(number + count) - 1}"
        yield _span(words, pid, _STEPS, at, float(seconds))
        # Their lengths are measured, their order is that of a usual loop.
        for name in SPLIT:
            if length := parts[name][place]:
                yield _span(name.replace("_", " "), pid, _PARTS, at, length)
                at += length


def _span(name: str, pid: int, tid: int, start: float, seconds: float) -> dict[str, Any]:
    where = {"name": name, "ph": "X", "pid": pid, "tid": tid}
    return {**where, "ts": _us(start), "dur": _us(seconds)}


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _us(seconds: float) -> float:
    return round(1e6 * seconds, 1)
