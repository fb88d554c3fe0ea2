"""Processes of this machine as /proc shows them: identity, descendants, waiting for the end.

Standard library only, as the keeper uses it, too.
"""

from __future__ import annotations

import os
import select
import signal
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
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.is_alive():  # asked after the opening: the handle is for the one we mean
            return handle
        os.close(handle)
        return None


def read_identity(pid: int) -> Identity | None:
    """Who has a number now; None if nobody has, or it has ended."""
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


def with_variable(name: str, text: str) -> list[int]:
    """Processes that were started with a variable in their environment."""
    wanted = f"{name}={text}".encode()
    return [
        int(number)
        for number in _numbers()
        if wanted in _read(f"/proc/{number}/environ").split(b"\0")
    ]


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
    except OSError:  # it ended meanwhile, or is somebody else's
        return b""
