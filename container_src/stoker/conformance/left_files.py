"""What a container leaves in the folders of /opt/ml, seen from outside."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping

from stoker.conformance.check import Failed
from stoker.conformance.lab import Container
from stoker.conformance.opt_ml import OptMl

_SHOWN = 6


def require_fact(container: Container, holds: Callable[[], bool], what: str) -> None:
    """Waits for a fact on disk.

    Raises:
        Failed: the container ends before, or the check's time is nearly over.
    """
    if not container.wait_until(holds, container.lab.seconds_left() / 2):
        raise Failed(f"{what}: this never came; it said: {container.logs().strip()[-400:]}")


def list_files(opt_ml: OptMl, folder: str) -> dict[str, int]:
    """The files below a folder of /opt/ml and their sizes in bytes."""
    top = opt_ml.root / folder
    found = {}
    for parent, _, names in os.walk(top):
        for name in names:
            path = os.path.join(parent, name)
            found[os.path.relpath(path, top)] = os.lstat(path).st_size
    return found


def hash_files(opt_ml: OptMl, folder: str) -> dict[str, str]:
    """The files below a folder of /opt/ml and their contents, as hashes."""
    top = opt_ml.root / folder
    return {
        name: hashlib.sha256((top / name).read_bytes()).hexdigest()
        for name in list_files(opt_ml, folder)
    }


def show_files(files: Mapping[str, int]) -> str:
    """A listing for evidence: the first names with their sizes."""
    shown = [f"{name} ({size_bytes} bytes)" for name, size_bytes in sorted(files.items())]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more if shown else "nothing"
