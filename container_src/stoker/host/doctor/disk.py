"""Is there room for data, checkpoints and models?"""

from __future__ import annotations

import shutil
from pathlib import Path

from stoker.host.doctor.finding import Finding, Machine

_ENOUGH_BYTES = 10 * 2**30
_LITTLE_BYTES = 2 * 2**30


def check(machine: Machine) -> Finding:
    """Data lies there twice: as objects, and in the folder of the job that reads them."""
    folder = _nearest_existing(machine.root)
    free_bytes = shutil.disk_usage(folder).free
    text = f"{free_bytes / 2**30:.0f} GiB free for {machine.root}"
    if free_bytes >= _ENOUGH_BYTES:
        return Finding(check="disk", level="ok", text=text)
    return Finding(
        check="disk",
        level="problem" if free_bytes < _LITTLE_BYTES else "warning",
        text=text,
        fix=f"use a larger disk: --root DIR; or remove old jobs from {machine.root}/jobs"
        " and images nobody uses: docker image prune",
    )


def _nearest_existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())
