"""How much memory was left, and the largest batch that would fit."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.bus.system_samples import GPU_MEMORY_BYTES, MEMORY_BYTES
from stoker.debugging.profiler_rules.profile import Profile

_STATES = 4
"""Weights, gradients and two moments of Adam: what does not grow with the batch."""

_SPARE = 0.9
"""Of the memory: allocators need some room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Headroom:
    """One kind of memory of one host."""

    name: str
    peak_bytes: float
    limit_bytes: float
    batch_size: int = 0
    """0: it is not known."""
    largest_batch: int = 0
    """An estimate; 0 where it cannot be made."""

    @property
    def share(self) -> float:
        return self.peak_bytes / self.limit_bytes if self.limit_bytes else 0.0


def find_headroom(profile: Profile) -> list[Headroom]:
    """The memories that were measured: of accelerators first."""
    found = []
    for facts in profile.facts:
        peak = float(facts.device_memory.get("allocated_peak", 0))
        limit = float(facts.device_memory.get("total", 0))
        if peak and limit:
            fixed = float(_STATES * facts.parameter_bytes)
            batch = find_batch(profile, facts.host)
            largest = _largest(batch, peak, limit, fixed)
            name = f"{facts.device_name or facts.device}, {facts.host} rank {facts.rank}"
            found.append(_make(name, peak, limit, batch, largest))
    for node in profile.nodes:
        series = profile.samples.get(node, {})
        if not found:
            found += _of_samples(node, series, GPU_MEMORY_BYTES, "gpu0 used", "gpu0 limit")
        used, limits = series.get((MEMORY_BYTES, "used")), series.get((MEMORY_BYTES, "limit"))
        if used is not None and limits is not None and len(used) and len(limits):
            peak, limit = float(used.values.max()), float(limits.values[-1])
            found.append(_make(f"memory of {node}", peak, limit, 0, 0))
    return found


def find_batch(profile: Profile, host: str) -> int:
    """The batch of the training loader of one rank; 0 if it is not known."""
    for facts in profile.facts:
        if facts.host == host:
            for loader in facts.loaders:
                if loader.get("phase") in (None, "", "train", "TRAIN"):
                    return int(loader.get("batch_size") or 0)
    return 0


def _of_samples(
    node: str, series: object, dimension: str, used: str, limit: str
) -> list[Headroom]:
    held = series.get((dimension, used)) if isinstance(series, dict) else None
    most = series.get((dimension, limit)) if isinstance(series, dict) else None
    if held is None or most is None or not len(held) or not len(most):
        return []
    peak, total = float(held.values.max()), float(most.values[-1])
    return [_make(f"{used.partition(' ')[0]} of {node}", peak, total, 0, 0)]


def _make(name: str, peak: float, limit: float, batch: int, largest: int) -> Headroom:
    return Headroom(
        name=name, peak_bytes=peak, limit_bytes=limit, batch_size=batch, largest_batch=largest
    )


def _largest(batch: int, peak: float, limit: float, fixed: float) -> int:
    """What is not weights and their states grows with the batch."""
    if not batch or peak <= fixed:
        return 0
    each = (peak - fixed) / batch
    return max(batch, int((limit * _SPARE - fixed) / each))
