"""Which processes of the container use its cores and its memory."""

from __future__ import annotations

import os
from typing import NamedTuple

MOST_PROCESSES = 8
"""The busiest are written down; a job may have hundreds."""

_MOST_LOOKED_AT = 512  # reading /proc of thousands would itself be a load
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """One process since the last look."""

    name: str
    """`<pid> <command>`."""
    cpu_percent: float
    """Of one core."""
    memory_bytes: float


class Processes:
    """Looks at all processes that the container shows, seldom: it is the dearest of all."""

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[float, float]] = {}
        """Process id → when it was started, and its CPU seconds at the last look."""

    def look(self, elapsed_seconds: float) -> tuple[list[Usage], int]:
        """The busiest processes, and how many threads run or wait for a core."""
        seconds: dict[int, tuple[float, float]] = {}
        found: list[Usage] = []
        runnable = 0
        for pid in _list_pids():
            fields, command = _read_stat(pid)
            if len(fields) < 22 or pid == os.getpid():
                continue
            runnable += _count_runnable(pid, int(fields[17]), fields[0])
            used, started = (int(fields[11]) + int(fields[12])) / _TICKS, float(fields[19])
            seconds[pid] = (started, used)
            before = self._seconds.get(pid)
            is_same = before is not None and before[0] == started
            spent = used - (before[1] if before is not None and is_same else 0.0)
            percent = 100.0 * spent / elapsed_seconds if is_same and elapsed_seconds > 0 else 0.0
            found.append(Usage(f"{pid} {command}", percent, float(int(fields[21]) * _PAGE_BYTES)))
        self._seconds = seconds
        found.sort(key=lambda usage: (usage.cpu_percent, usage.memory_bytes), reverse=True)
        return found[:MOST_PROCESSES], runnable


def _list_pids() -> list[int]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return pids[:_MOST_LOOKED_AT]


def _read_stat(pid: int) -> tuple[list[bytes], str]:
    """The fields after the command, which may itself hold spaces and parentheses."""
    before, _, after = _read(f"/proc/{pid}/stat").rpartition(b")")
    return after.split(), before.partition(b"(")[2].decode("utf-8", "replace")


def _count_runnable(pid: int, threads: int, state: bytes) -> int:
    if threads <= 1:
        return state == b"R"
    try:
        names = os.listdir(f"/proc/{pid}/task")[:_MOST_LOOKED_AT]
    except OSError:
        return 0
    stats = (_read(f"/proc/{pid}/task/{name}/stat") for name in names)
    return sum(stat.rpartition(b")")[2][1:2] == b"R" for stat in stats)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(4096)
    except OSError:  # it has ended meanwhile
        return b""
