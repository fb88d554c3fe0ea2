"""Where time went, by operator and phase: the framework figures of several rules' details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Event, Profile

LEAST_PERCENT = 2.0
"""Operators below it are dropped, and the others take their share, as in the service."""

# smdebug's hook also writes `Backward(post-forward)-SubModuleInternal`.
_HALVES = {"Forward": "Forward pass", "Backward": "Backward pass"}
_OWN_GROUPS = ("cpu_functions", "gpu_functions", *_HALVES, "Step:", "Horovod")


def aggregate(
    profile: Profile, spans: Sequence[tuple[float, float]] | None = None, *, others: bool = False
) -> dict[str, Any]:
    """The keys of the service's `Details`.

    Args:
        profile: what was measured.
        spans: only what overlaps one of these; everything if None.
        others: add the time between the steps to `phase`.
    """
    events = [event for event in profile.events if spans is None or _overlaps(event, spans)]
    cpu = _total(event for event in events if "cpu" in event.phase.lower())
    gpu = _total(event for event in events if "gpu" in event.phase.lower())
    by_device = {"cpu_functions": sum(cpu.values()), "gpu_functions": sum(gpu.values())}
    half_times: dict[str, float] = {}
    for prefix, words in _HALVES.items():
        seconds = [event.seconds for event in events if event.phase.startswith(prefix)]
        half_times |= {words: sum(seconds)} if seconds else {}
    general = _total(
        (event for event in events if not event.phase.startswith(_OWN_GROUPS)),
        key=lambda event: event.phase,
    )
    horovod = _total(event for event in events if event.phase.startswith("Horovod"))
    return {
        "ratio": _percent({name: time for name, time in by_device.items() if time}),
        "CPU": _rescale(_percent(cpu)),
        "GPU": _rescale(_percent(gpu)),
        "CPU_total": {name: seconds * 1e6 for name, seconds in cpu.items()},
        "GPU_total": {name: seconds * 1e6 for name, seconds in gpu.items()},
        "phase": _percent(_phase_seconds(profile, spans, others=others)),
        "phase_time": {},
        "general": _percent(general),
        "forward_backward": _percent(half_times),
        "horovod": _rescale(_percent(horovod)),
    }


def _phase_seconds(
    profile: Profile, spans: Sequence[tuple[float, float]] | None, *, others: bool
) -> dict[str, float]:
    found: dict[str, float] = {}
    between = 0.0
    by_process: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for one in profile.steps:
        if not len(one):
            continue
        inside = np.ones(len(one), dtype=bool) if spans is None else _touching(one, spans)
        name = f"Step:ModeKeys.{one.mode}"
        found[name] = found.get(name, 0.0) + float(one.seconds[inside].sum())
        bounds = (float(one.starts[0]), float(one.ends.max()), float(one.seconds.sum()))
        by_process.setdefault((one.node, one.rank), []).append(bounds)
    if others:
        for parts in by_process.values():
            whole = max(end for _, end, _ in parts) - min(start for start, _, _ in parts)
            between += max(0.0, whole - sum(seconds for _, _, seconds in parts))
        found["others"] = between
    return found


def _touching(one: Any, spans: Sequence[tuple[float, float]]) -> Any:  # noqa: ANN401 - arrays
    inside = np.zeros(len(one), dtype=bool)
    for start, end in spans:
        inside |= (one.starts < end) & (one.ends > start)
    return inside


def _total(
    events: Iterable[Event],
    key: Any = lambda event: event.name,  # noqa: ANN401 - a function
) -> dict[str, float]:
    totals: dict[str, float] = {}
    for event in events:
        name = key(event)
        totals[name] = totals.get(name, 0.0) + event.seconds
    return totals


def _percent(times: Mapping[str, float]) -> dict[str, float]:
    whole = sum(times.values())
    return {name: 100 * seconds / whole for name, seconds in times.items()} if whole > 0 else {}


def _rescale(shares: Mapping[str, float]) -> dict[str, float]:
    return _percent({name: share for name, share in shares.items() if share > LEAST_PERCENT})


def _overlaps(event: Event, spans: Sequence[tuple[float, float]]) -> bool:
    return any(event.start <= end and event.start + event.seconds >= start for start, end in spans)
