"""One sample: all figures of the hardware at one moment, since the sample before."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from stoker.bus import system_samples as names
from stoker.profiling.sampling.control_group import ControlGroup
from stoker.profiling.sampling.gpus import Event, Gpus
from stoker.profiling.sampling.machine import Machine, percent_used
from stoker.profiling.sampling.processes import Processes

PROCESS_SECONDS = 5.0
"""Between two looks at all processes."""

MOST_PROCESS_SECONDS = 60.0
PROCESS_SHARE = 0.0002
"""Of a core: where there are hundreds of processes, they are looked at less often."""

_FIRST_PROCESS_SECONDS = 1.0  # for a job that does not take long

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is the folder that is measured


class Sampler:
    """Turns counters into rates."""

    def __init__(self, folder: str) -> None:
        """Args:
        folder: on the file system whose fill is watched.
        """
        self._folder = folder
        self._machine = Machine()
        self._group = ControlGroup()
        self._processes = Processes()
        self.gpus = Gpus()
        self._before: dict[str, float] = {}
        self._cores_before: dict[int, tuple[float, float]] = {}
        self._time = self._processes_time = -math.inf
        self._process_seconds = 0.0
        cores = float(len(self._machine.cores))
        limit = self._group.cpu_limit()
        self._limit = min(limit, cores) if limit > 0 else cores

    def take(self, now: float) -> list[Event]:
        """All events; none the first time, when there is nothing to compare with.

        Args:
            now: monotonic time.
        """
        elapsed = now - self._time
        self._time = now
        events = [
            *self._cpu(elapsed),
            *self._memory(),
            *self._rates("network", names.NETWORK, "Receive Transmit", elapsed),
            *self._rates("disk", names.DISK, "Read Write", elapsed),
            *self._pressure(elapsed),
            *self._process_table(now),
            *self.gpus.read(),
        ]
        return events if math.isfinite(elapsed) else []

    def _cpu(self, elapsed: float) -> Iterator[Event]:
        cores, before = self._machine.core_seconds(), self._cores_before
        self._cores_before = cores
        own = self._since("cpu", self._group.cpu_seconds())
        both = [core for core in cores if core in before] if 0 < elapsed < math.inf else []
        work = {core: max(0.0, cores[core][0] - before[core][0]) for core in both}
        wait = {core: max(0.0, cores[core][1] - before[core][1]) for core in both}
        machine = sum(work.values())
        # The machine's figures, less what others have used of it.
        share = min(1.0, own / machine) if own is not None and machine > 0 else 1.0
        if both and self._limit < len(both) - 0.01:
            # Which cores a quota lets it use is of no consequence: it has as many as that.
            count = max(1, math.ceil(self._limit - 0.01))
            work = dict.fromkeys(range(count), machine / self._limit)
            wait = dict.fromkeys(range(count), sum(wait.values()) / len(both))
        for core, seconds in work.items():
            percent = min(100.0, 100.0 * seconds * share / elapsed)
            yield "cpu", f"cpu{core}", names.CPU_UTILIZATION, percent
        for core, seconds in wait.items():
            yield "i/o", f"cpu{core}", names.IO_WAIT, min(100.0, 100.0 * seconds / elapsed)
        if both and own is not None:
            percent = min(100.0, 100.0 * own / elapsed / self._limit)
            yield "cpu", "container", names.CONTAINER_CPU, percent
        yield "cpu", "container", names.CPU_LIMIT, self._limit
        throttled, periods = self._group.throttled()
        stopped, passed = self._since("throttled", throttled), self._since("periods", periods)
        if stopped is not None and passed is not None:
            percent = 100.0 * stopped / passed if passed else 0.0
            yield "cpu", "container", names.CPU_THROTTLED, percent

    def _memory(self) -> Iterator[Event]:
        used, total = self._machine.memory_bytes()
        own, own_limit = self._group.memory_bytes(), self._group.memory_limit_bytes()
        if own >= 0:
            used = own
        limit = min(total, own_limit) if own_limit > 0 else total
        if limit > 0:
            percent = min(100.0, 100.0 * used / limit)
            yield "memory", names.MEMORY_USED_PERCENT, names.MEMORY, percent
            yield "memory", "used", names.MEMORY_BYTES, used
            yield "memory", "limit", names.MEMORY_BYTES, limit
        shared = percent_used(_SHARED_MEMORY)
        if shared >= 0:
            yield "memory", _SHARED_MEMORY, names.SHM_UTILIZATION, shared
        disk = percent_used(self._folder)
        if disk >= 0:
            yield "disk", self._folder, names.DISK_UTILIZATION, disk

    def _rates(self, kind: str, dimension: str, words: str, elapsed: float) -> Iterator[Event]:
        if kind == "network":
            counters = self._machine.network_bytes()
        else:
            counters = self._group.disk_bytes()
            counters = counters if counters[0] >= 0 else self._machine.disk_bytes()
        for word, counter in zip(words.split(), counters, strict=True):
            passed = self._since(f"{kind} {word}", counter)
            if passed is not None and 0 < elapsed < math.inf:
                yield kind, f"{word}BytesPerSecond", dimension, passed / elapsed

    def _pressure(self, elapsed: float) -> Iterator[Event]:
        for name, seconds in self._group.stalled_seconds().items():
            lost = self._since(f"pressure {name}", seconds)
            if lost is not None and 0 < elapsed < math.inf:
                yield "pressure", name, names.PRESSURE, min(100.0, 100.0 * lost / elapsed)

    def _process_table(self, now: float) -> Iterator[Event]:
        elapsed = now - self._processes_time
        if elapsed < self._process_seconds:
            return
        is_first = math.isinf(elapsed)
        self._processes_time = now
        begun = time.thread_time()
        busiest, runnable = self._processes.look(0.0 if is_first else elapsed)
        wait = max(PROCESS_SECONDS, (time.thread_time() - begun) / PROCESS_SHARE)
        self._process_seconds = min(
            wait if not is_first else _FIRST_PROCESS_SECONDS, MOST_PROCESS_SECONDS
        )
        yield "cpu", "container", names.RUNNABLE, float(runnable)
        for usage in busiest:
            yield "process", usage.name, names.PROCESS_CPU, usage.cpu_percent
            yield "process", usage.name, names.PROCESS_MEMORY, usage.memory_bytes

    def _since(self, name: str, counter: float) -> float | None:
        """By how much a counter has grown; None if it is new, or does not exist (-1)."""
        before = self._before.get(name)
        if counter < 0:
            return None
        self._before[name] = counter
        return max(0.0, counter - before) if before is not None else None
