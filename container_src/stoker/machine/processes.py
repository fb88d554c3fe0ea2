"""Processes of this machine as /proc shows them: identity, descendants, waiting for the end."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PARENT, _START = 1, 19  # fields of /proc/PID/stat, counted behind the command's name
_ENDED_STATES = (b"Z", b"X")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """One process and no other: numbers are used again, starting times within a boot are not."""

    pid: int
    start_ticks: int
    boot: str

    def is_alive(self) -> bool:
        """Whether it still runs; one that merely waits to be collected does not."""
        return read_identity(self.pid) == self

    def age_seconds(self) -> float:
        """How long it has run; meaningless for a process of an earlier boot."""
        ticks_per_second = os.sysconf("SC_CLK_TCK")
        # The clock that the kernel counts starting times by: it runs while the machine sleeps,
        # too.
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.start_ticks / ticks_per_second

    def signal(self, number: int) -> bool:
        """Signals this very process; False if it has ended."""
        handle = self._open()
        if handle is None:
            return False
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def ends_within(self, timeout_seconds: float) -> bool:
        """Waits for its end. A child of this process is collected."""
        handle = self._open()
        if handle is not None:
            try:
                poll = select.poll()
                poll.register(handle, select.POLLIN)
                if not poll.poll(timeout_seconds * 1000):
                    return False
            finally:
                os.close(handle)
        self._collect()
        return True

    def _collect(self) -> None:
        fields = _stat(str(self.pid))
        if len(fields) > _START and int(fields[_START]) == self.start_ticks:  # not another child
            with suppress(ChildProcessError):  # not ours: a server before us started it
                os.waitpid(self.pid, os.WNOHANG)

    def _open(self) -> int | None:
        try:
            # A handle of a process, not of its number: the number may be another's by the time of
            # the signal.
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.is_alive():  # asked after the opening: the handle is for the one we mean
            return handle
        os.close(handle)
        return None


def read_identity(pid: int) -> Identity | None:
    """The process that has a number now; None if there is none, or it has ended."""
    fields = _stat(str(pid))
    if len(fields) <= _START or fields[0] in _ENDED_STATES:
        return None
    return Identity(pid=pid, start_ticks=int(fields[_START]), boot=_boot())


def descendants(pid: int) -> list[int]:
    """All processes below one, also those that only wait to be collected."""
    parents = {
        int(name): int(fields[_PARENT]) for name in _numbers() if len(fields := _stat(name)) > 1
    }
    found = [pid]
    for above in found:
        found += [below for below, parent in parents.items() if parent == above]
    return found[1:]


def heeds(pid: int, number: int) -> bool:
    """Whether the process has chosen what a signal does: it is caught, or ignored."""
    # One that is merely blocked says nothing: a shell blocks all signals while it forks.
    fields = dict(line.split(b":", 1) for line in _read(f"/proc/{pid}/status").splitlines())
    masks = [fields.get(name, b"0") for name in (b"SigCgt", b"SigIgn")]
    return any(has_signal(mask.decode(), number) for mask in masks)


def has_signal(mask: str, number: int) -> bool:
    """Whether a set of signals, in the kernel's hexadecimal form, holds a signal."""
    return bool(int(mask, 16) & (1 << (number - 1)))


def with_variable(name: str, text: str) -> list[int]:
    """Processes that were started with a variable in their environment."""
    wanted = f"{name}={text}".encode()
    return [
        int(number)
        for number in _numbers()
        if wanted in _read(f"/proc/{number}/environ").split(b"\0")
    ]


def read_command(pid: int) -> list[str]:
    """The command line of a process; empty if it has ended."""
    return _read(f"/proc/{pid}/cmdline").decode(errors="surrogateescape").split("\0")[:-1]


def _numbers() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _stat(number: str) -> list[bytes]:
    # The command in parentheses may hold spaces and parentheses itself.
    return _read(f"/proc/{number}/stat").rpartition(b")")[2].split()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it ended meanwhile, or belongs to another user
        return b""


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
