"""How much memory was left, and the largest batch that would fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.bus.progress import show_size
from stoker.bus.step_records import StepFacts
from stoker.bus.system_samples import GPU_MEMORY_BYTES, MEMORY_BYTES, PROCESS_MEMORY
from stoker.debugging.profiler_rules.profile import Profile, Series

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATES = 4
"""Weights, gradients and two moments of Adam: what does not grow with the batch."""

_SPARE = 0.9
"""Of the memory: allocators need some room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Headroom:
    """One memory: of an accelerator, or of a host."""

    name: str
    peak_bytes: float
    limit_bytes: float
    largest_batch: int = 0
    """An estimate; 0 where it cannot be made."""
    reasoning: str = ""
    """How it was estimated, or why it was not."""

    @property
    def share(self) -> float:
        return self.peak_bytes / self.limit_bytes if self.limit_bytes else 0.0


def find_headroom(profile: Profile) -> list[Headroom]:
    """The memories that were measured: of accelerators first."""
    return [*_of_accelerators(profile), *_of_hosts(profile)]


def find_batch(profile: Profile, host: str) -> int:
    """The batch of the training loader of one rank; 0 if it is not known."""
    for facts in profile.facts:
        if facts.host == host:
            for loader in facts.loaders:
                if loader.get("phase") in (None, "", "train", "TRAIN"):
                    return int(loader.get("batch_size") or 0)
    return 0


def find_memory_lines(profile: Profile, node: str) -> dict[str, dict[str, Series]]:
    """Chart → line → bytes over time: of the host with its ranks, and of its accelerators."""
    series = profile.samples.get(node, {})
    lines: dict[str, dict[str, Series | None]] = {
        "Memory": {name: series.get((MEMORY_BYTES, name)) for name in ("used", "limit")}
    }
    for facts in profile.facts:
        if facts.host == node:
            lines["Memory"][f"rank {facts.rank}"] = _of_process(profile, facts)
    for (dimension, name), figure in series.items():
        if dimension == GPU_MEMORY_BYTES:
            lines.setdefault("GPU memory", {})[name] = figure
    known = {
        chart: {name: s for name, s in found.items() if s is not None and len(s)}
        for chart, found in lines.items()
    }
    return {chart: found for chart, found in known.items() if found}


def _of_accelerators(profile: Profile) -> Iterator[Headroom]:
    """What torch's allocator says of each rank; else what the driver says of each device."""
    has_torchs = False
    for facts in profile.facts:
        peak = float(facts.device_memory.get("allocated_peak", 0))
        limit = float(facts.device_memory.get("total", 0))
        if peak and limit:
            has_torchs = True
            fixed = float(_STATES * facts.parameter_bytes)
            fixed_words = f"{show_size(fixed)} for weights, gradients and two moments"
            batch = find_batch(profile, facts.host)
            largest, reasoning = _largest(batch, peak - fixed, limit * _SPARE - peak, fixed_words)
            yield Headroom(
                name=f"{facts.device_name or facts.device}, {facts.host} rank {facts.rank}",
                peak_bytes=peak,
                limit_bytes=limit,
                largest_batch=largest,
                reasoning=reasoning,
            )
    # The driver counts the blocks that torch's allocator keeps free: it is the second choice.
    for node in [] if has_torchs else profile.nodes:
        found = find_memory_lines(profile, node).get("GPU memory", {})
        for name in sorted(each.removesuffix(" used") for each in found if each.endswith("used")):
            yield from _peak(f"{name} of {node}", found, f"{name} used", f"{name} limit")


def _of_hosts(profile: Profile) -> Iterator[Headroom]:
    for node in profile.nodes:
        lines = find_memory_lines(profile, node).get("Memory", {})
        for found in _peak(f"memory of {node}", lines, "used", "limit"):
            largest, reasoning = _fit_host(profile, node, found)
            yield Headroom(
                name=found.name,
                peak_bytes=found.peak_bytes,
                limit_bytes=found.limit_bytes,
                largest_batch=largest,
                reasoning=reasoning,
            )


def _fit_host(profile: Profile, node: str, memory: Headroom) -> tuple[int, str]:
    """Of a training on CPU: what its ranks took more once steps began, grows with the batch."""
    ranks = [facts for facts in profile.facts if facts.host == node and facts.device == "cpu"]
    starts = {one.rank: float(one.starts[0]) for one in profile.steps_of() if one.node == node}
    grown = states = 0.0
    for facts in ranks:
        used = _of_process(profile, facts)
        start = starts.get(facts.rank)
        before = used.until(start) if used is not None and start is not None else None
        if used is None or start is None or before is None or not len(before):
            return 0, ""
        # The last sample before the first step has imports and the model in it, but no batch.
        grown += float(used.between(start, math.inf).values.max(initial=0) - before.values[-1])
        states += float((_STATES - 1) * facts.parameter_bytes)  # weights were there before
    fixed_words = f"{show_size(states)} for gradients and two moments"
    room = _SPARE * memory.limit_bytes - memory.peak_bytes
    return _largest(find_batch(profile, node), grown - states, room, fixed_words)


def _largest(batch: int, of_batch: float, room: float, fixed_words: str) -> tuple[int, str]:
    """The largest batch, and the sum behind it.

    Args:
        batch: of now.
        of_batch: bytes that it takes.
        room: bytes that are left.
        fixed_words: what was taken off before.
    """
    if not batch or of_batch <= 0:
        return 0, ""
    each = of_batch / batch
    largest = batch + max(0, int(room / each))
    # Two digits: the estimate has no more precision.
    magnitude = 10 ** max(0, int(math.log10(largest)) - 1)
    rounded = max(batch, largest // magnitude * magnitude)
    return rounded, (
        f"in addition to {fixed_words}, a batch of {batch} takes {show_size(of_batch)}, "
        f"{show_size(each)} for each sample; {show_size(max(0.0, room))} are left below "
        f"{100 * _SPARE:.0f} % of the limit"
    )


def _peak(name: str, lines: Mapping[str, Series], used: str, limit: str) -> Iterator[Headroom]:
    if used in lines and limit in lines:
        peak, total = float(lines[used].values.max()), float(lines[limit].values[-1])
        yield Headroom(name=name, peak_bytes=peak, limit_bytes=total)


def _of_process(profile: Profile, facts: StepFacts) -> Series | None:
    for (dimension, name), series in profile.samples.get(facts.host, {}).items():
        if dimension == PROCESS_MEMORY and name.partition(" ")[0] == str(facts.pid):
            return series
    return None
