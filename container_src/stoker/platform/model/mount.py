"""A folder of this machine, mounted into the host of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A folder of this machine that the host of a job sees elsewhere."""

    source: Path
    target: str
    """Where the job sees it, such as /opt/ml/input/data/train."""
    read_only: bool = False
