"""How the uploader knows that a file has changed, also after the server was killed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.host.platform.around.confined import Parts

_CLOCK_TICK_SECONDS = 0.05
"""Longer than the kernel's clock for file times stands still: two writes may share a time."""


class Fingerprint(NamedTuple):
    """A file's identity at one moment."""

    inode: int
    size_bytes: int
    modified_ns: int


def make_fingerprint(status: os.stat_result) -> Fingerprint:
    """The identity of a file, from its status."""
    return Fingerprint(status.st_ino, status.st_size, status.st_mtime_ns)


def read_settled(descriptor: int) -> Fingerprint:
    """The identity of an open file, such that any later write changes it."""
    age_seconds = (time.time_ns() - os.fstat(descriptor).st_mtime_ns) / 1e9
    if 0 <= age_seconds < _CLOCK_TICK_SECONDS:
        time.sleep(_CLOCK_TICK_SECONDS - age_seconds)
    return make_fingerprint(os.fstat(descriptor))


def read_journal(journal: Path) -> dict[Parts, Fingerprint]:
    """What had been uploaded when the journal was written; empty if there is none."""
    try:
        lines = json.loads(journal.read_text())
        return {tuple(name.split("/")): Fingerprint(*numbers) for name, numbers in lines.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_journal(journal: Path, known: Mapping[Parts, Fingerprint]) -> None:
    """Keep what has been uploaded."""
    part = journal.with_name(f"{journal.name}.tmp")
    part.write_text(json.dumps({"/".join(parts): print_ for parts, print_ in known.items()}))
    part.replace(journal)
