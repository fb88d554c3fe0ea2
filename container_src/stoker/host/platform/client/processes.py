"""Processes of this machine, as /proc shows them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_STEP_SECONDS = 0.05
_DEAD = ("Z", "X")


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process; the start time tells it from a later one with the same number."""

    pid: int
    parent: int
    session: int
    started: str
    state: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; one that ended and was not fetched by its parent does not."""
        now = read_process(self.pid)
        return now is not None and now.started == self.started and now.state not in _DEAD


def read_process(pid: int) -> Process | None:
    """What the kernel says about it; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    words = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return Process(
        pid=pid, state=words[0], parent=int(words[1]), session=int(words[3]), started=words[19]
    )


def is_running_module(pid: int, module: str) -> bool:
    """Whether the process was started as `python -m module`."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return module.encode() in words


def descendants_in_session(process: Process) -> list[Process]:
    """Those it started, and so on, except what was given a session of its own to outlive it."""
    every = [read_process(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()]
    rest = [p for p in every if p is not None and p.session == process.session]
    found = [process]
    for one in found:  # it grows as we go
        found += [p for p in rest if p.parent == one.pid and p not in found]
    return found[1:]


def wait_until_gone(processes: Iterable[Process], *, timeout_seconds: float) -> list[Process]:
    """Wait for all of them to end; returns those that did not."""
    deadline = time.monotonic() + timeout_seconds
    left = list(processes)
    while (left := [p for p in left if p.is_alive]) and time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
    return left
