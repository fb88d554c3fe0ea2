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

    layers: tuple[Path, ...] = ()
    """Folders that show through `source`, the first on top, and are never changed.

    What the job writes, changes or deletes goes into `source`.
    """

    @property
    def work_dir(self) -> Path:
        """For overlayfs itself, next to the folder that takes the changes."""
        return self.source.with_name(f"{self.source.name}.work")
