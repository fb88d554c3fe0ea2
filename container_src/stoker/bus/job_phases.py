"""stoker/phases/<host>.jsonl: what the launcher did when, one line per phase as it ends.

{"phase": "install", "name": "pip install", "start": 1591160699.1, "end": 1591160712.4}

What happened outside the container (download of channels, upload of the model) is in the status
transitions of DescribeTrainingJob.
"""

from __future__ import annotations

import os

from stoker.contract.files import open_regular, read_regular
from stoker.contract.quick_json import dumps, loads
from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Phase = Literal["start", "download", "install", "rules", "training", "finish"]


class JobPhase(Record):
    """A part of the container's life: Unix times, seconds."""

    phase: str
    """start: from the container's first process to the launcher's first step; download: code from
    S3; install: requirements; rules: their check; training: the worker; finish: the rest."""
    name: str = ""
    """Of the step, for people."""
    start: float
    end: float
    host: str = ""


def phases_file(profiler_dir: str, host: str) -> str:
    return f"{profiler_dir}/stoker/phases/{host}.jsonl"


def append_phase(profiler_dir: str, phase: JobPhase) -> None:
    """Adds one line.

    Raises:
        OSError: it cannot be written.
    """
    file = phases_file(profiler_dir, phase.host)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    # Appended, not replaced: a launcher that is killed leaves the phases that were over.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with open(open_regular(file, flags), "a", encoding="utf-8") as opened:
        opened.write(f"{dumps(phase.__dict__)}\n")


def read_phases(profiler_dir: str) -> list[JobPhase]:
    """The phases of all hosts in the order of their start; bad lines are skipped."""
    folder = f"{profiler_dir}/stoker/phases"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [phase for name in names for phase in _read(f"{folder}/{name}")]
    return sorted(found, key=lambda phase: (phase.host, phase.start))


def _read(file: str) -> list[JobPhase]:
    host = os.path.basename(file).removesuffix(".jsonl")
    phases = []
    try:
        lines = read_regular(file).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            # The file's name is the host of lines that do not name one.
            phases.append(JobPhase.read({"host": host, **loads(line)}))
        except (ValueError, RecursionError, TypeError, KeyError):
            continue
    return phases
