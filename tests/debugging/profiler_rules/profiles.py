"""Profiles made in memory or as files: machines and steps as a test wants them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from stoker.bus.step_records import FIELDS, StepFacts, pack, steps_file, write_facts
from stoker.bus.system_samples import samples_file
from stoker.debugging.profiler_rules.profile import Profile, Series, StepSeries

START = 1_600_000_000.0
INTERVAL = 0.5


def make_series(values, *, start=START, interval=INTERVAL):
    values = np.asarray(values, dtype=float)
    return Series(times=start + np.arange(len(values)) * interval, values=values)


def make_machine(count=1200, **figures):
    """One node: `cpu0=…`, `gpu0=…`, `gpu0_memory=…`, `cpu0_io=…`, each a number or a list."""
    found = {}
    for name, value in figures.items():
        device, _, kind = name.partition("_")
        dimension = {
            "": "CPUUtilization" if device.startswith("cpu") else "GPUUtilization",
            "memory": "GPUMemoryUtilization",
            "io": "I/OWaitPercentage",
        }[kind]
        values = np.broadcast_to(value, count) if np.isscalar(value) else value
        found[dimension, device] = make_series(values)
    return found


def make_steps(seconds, *, node="algo-1", rank=0, mode="TRAIN", start=START, **parts):
    seconds = np.asarray(seconds, dtype=float)
    ends = np.cumsum(seconds)
    return StepSeries(
        node=node,
        rank=rank,
        mode=mode,
        numbers=np.arange(len(seconds), dtype=float),
        starts=start + ends - seconds,
        seconds=seconds,
        counts=np.ones(len(seconds)),
        longest=seconds,
        first_of_epoch=np.zeros(len(seconds), dtype=bool),
        parts={name: np.broadcast_to(value, len(seconds)) for name, value in parts.items()},
    )


def make_profile(*steps, **nodes):
    samples = {name.replace("_", "-"): figures for name, figures in nodes.items()}
    return Profile(samples=samples, steps=steps)


def write_samples(folder, figures, *, node="algo-1", start=START, interval=INTERVAL):
    """{(type, dimension, name): values} as the sampler's files."""
    count = max(len(values) for values in figures.values())
    opened = {}
    for place in range(count):
        when = start + place * interval
        file = samples_file(str(folder), when, node)
        lines = opened.setdefault(file, [])
        for (kind, dimension, name), values in figures.items():
            event = {"Type": kind, "Name": name, "Dimension": dimension}
            event |= {"Value": float(values[place]), "NodeId": node, "Timestamp": when}
            lines.append(json.dumps(event))
    for file, lines in opened.items():
        _write(file, "\n".join(lines) + "\n")


def write_steps(folder, steps, *, host="algo-1", rank=0, start=START, **facts):
    """Each step a mapping of the record's fields; `start` follows from what came before."""
    file = steps_file(str(folder), host=host, rank=rank, pid=100 + rank)
    rows, now = [], start
    for number, step in enumerate(steps):
        row = dict.fromkeys(FIELDS, 0.0) | {"start": now, "step": number, "count": 1}
        row |= {"flags": 0, "ready_batches": -1, **step}
        row["longest"] = row["longest"] or row["total"]
        for name in ("step", "count", "flags", "ready_batches"):
            row[name] = int(row[name])
        rows.append(pack(tuple(row[name] for name in FIELDS)))
        now = row["start"] + row["total"]
    _write(file, b"".join(rows))
    known = {"host": host, "rank": rank, "pid": 100 + rank, "started": start, **facts}
    write_facts(file, StepFacts(**known))
    return now


def _write(file, content):
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
