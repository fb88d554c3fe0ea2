"""Uncaught exceptions as files: what a worker leaves behind for the launcher to report.

One JSON object per process in the folder named by `STOKER_CRASH_DIR`. Unlike the log they are
never interleaved, cut or re-indented on the way.
"""

from __future__ import annotations

import os
import time

from stoker.contract.files import read_regular, write_atomically
from stoker.contract.quick_json import dumps, loads
from stoker.contract.record import Record

FOLDER_VARIABLE = "STOKER_CRASH_DIR"
_LONGEST_TEXT = 32 * 1024  # a message may quote a whole array


class Crash(Record):
    """One uncaught exception of one process."""

    error: str
    """Type and message, as the last lines of the traceback show them."""
    traceback: str
    """Its frames as Python prints them, without the message."""
    pid: int
    parent_pid: int
    rank: str = ""
    """Rank under torchrun; empty for a single process."""
    at_seconds: float = 0.0
    """Wall clock, to find the first of several ranks."""


def write_crash(folder: str, *, error: str, traceback: str, rank: str = "") -> None:
    """Leaves a crash file of this process; silent if the folder cannot be written."""
    crash = {
        # Of a message the beginning tells most, of the frames the end: there the error was raised.
        "error": error[:_LONGEST_TEXT],
        "traceback": traceback[-_LONGEST_TEXT:],
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "rank": rank,
        "at_seconds": time.time(),
    }
    try:
        write_atomically(f"{folder}/{os.getpid()}.json", dumps(crash))
    except OSError:
        return  # a full disk must not hide the exception itself, which is printed next


def read_crashes(folder: str) -> list[Crash]:
    """All crash files, oldest first; damaged ones are left out."""
    crashes = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if not name.endswith(".json"):
            continue
        try:
            crashes.append(Crash.read(loads(read_regular(f"{folder}/{name}").decode())))
        except (OSError, ValueError, TypeError, RecursionError):
            continue
    # By the clock: the first rank that failed is the cause, the others lost their peer.
    return sorted(crashes, key=lambda crash: crash.at_seconds)
