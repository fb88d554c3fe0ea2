"""Operators, kernels and memory from traces of torch.profiler."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_TRACES = 4
MOST_BYTES = 96 * 1024 * 1024
"""Of a trace before it was packed: reading more takes too long for a page."""

_MOST_POINTS = 400
_MEMORY = "[memory]"
"""The name of the events that allocate and free."""


@dataclass(slots=True)
class Operator:
    """All calls of one operator or kernel."""

    calls: int = 0
    total_us: float = 0.0
    own_us: float = 0.0
    """Without the operators that it calls."""
    allocated_bytes: float = 0.0
    """By itself, added up: what it has freed again counts, too."""
    allocations: int = 0


@dataclass(slots=True)
class Operators:
    """What some traces say together."""

    operators: dict[str, Operator] = field(default_factory=dict)
    kernels: dict[str, Operator] = field(default_factory=dict)
    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Device → seconds since the trace began, bytes allocated; of the first trace that has it."""
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_operators(traces: Sequence[Path]) -> Operators:
    """Adds up the newest traces; a damaged one is named."""
    found = Operators()
    for file in sorted(traces, key=lambda each: each.stat().st_mtime, reverse=True)[:MOST_TRACES]:
        try:
            events = _read(file)
        except (OSError, EOFError, ValueError, zlib.error, RecursionError) as error:
            found.problems.append(f"{file.name} cannot be read: {error}")
            continue
        found.files.append(file)
        _add_operators(found.operators, events)
        for event in events:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                kernel = found.kernels.setdefault(str(event.get("name")), Operator())
                kernel.calls += 1
                kernel.total_us += float(event.get("dur", 0))
                # Kernels do not call each other.
                kernel.own_us = kernel.total_us
        if not found.memory:
            found.memory = _read_memory(events)
    return found


def _read(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as opened:
        text = opened.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB; open it in Perfetto")
    parsed = json.loads(text)
    events = parsed.get("traceEvents", []) if isinstance(parsed, dict) else parsed
    return [event for event in events if isinstance(event, dict)]


def _add_operators(found: dict[str, Operator], events: Sequence[Mapping[str, Any]]) -> None:
    by_thread: dict[Any, list[Mapping[str, Any]]] = {}
    for event in events:
        if event.get("cat") == "cpu_op" or event.get("name") == _MEMORY:
            by_thread.setdefault((event.get("pid"), event.get("tid")), []).append(event)
    for of_thread in by_thread.values():
        # Outer ones first, so that the stack holds the callers of each.
        of_thread.sort(key=lambda e: (float(e.get("ts", 0)), -float(e.get("dur", 0))))
        stack: list[tuple[float, Operator]] = []
        for event in of_thread:
            start, duration = float(event.get("ts", 0)), float(event.get("dur", 0))
            while stack and stack[-1][0] <= start:
                stack.pop()
            if event.get("name") == _MEMORY:
                if stack:
                    _add_allocation(stack[-1][1], event)
                continue
            operator = found.setdefault(str(event.get("name")), Operator())
            operator.calls += 1
            operator.total_us += duration
            operator.own_us += duration
            if stack:
                stack[-1][1].own_us -= duration
            stack.append((start + duration, operator))


def _add_allocation(operator: Operator, event: Mapping[str, Any]) -> None:
    arguments = event.get("args")
    size_bytes = float(arguments.get("Bytes", 0)) if isinstance(arguments, dict) else 0.0
    if size_bytes > 0:  # less than zero: it was freed
        operator.allocated_bytes += size_bytes
        operator.allocations += 1


def _read_memory(events: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    points: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        arguments = event.get("args")
        if event.get("name") != _MEMORY or not isinstance(arguments, dict):
            continue
        is_cpu = arguments.get("Device Type") == 0
        device = "CPU" if is_cpu else f"GPU {arguments.get('Device Id', 0)}"
        total = float(arguments.get("Total Allocated", 0))
        points.setdefault(device, []).append((float(event.get("ts", 0)) / 1e6, total))
    shown = {}
    for device, of_device in points.items():
        of_device.sort()
        first = of_device[0][0]
        every = max(1, len(of_device) // _MOST_POINTS)
        # The peak of each stretch: it is what does not fit.
        stretches = [of_device[n : n + every] for n in range(0, len(of_device), every)]
        tops = [max(stretch, key=lambda point: point[1]) for stretch in stretches]
        shown[device] = [(when - first, total) for when, total in tops]
    return shown
