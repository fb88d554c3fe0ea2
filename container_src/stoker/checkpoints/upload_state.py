"""What the platform's uploader, which works in the same folder, does there at the moment."""

from __future__ import annotations

import os

from stoker.contract.upload_markers import IGNORED, UPLOADED, UPLOADING


def is_marker(name: str) -> bool:
    return name.endswith((UPLOADING, UPLOADED))


def is_ignored(name: str) -> bool:
    return name.endswith(IGNORED)


def is_uploading(folder: str) -> bool:
    """Whether a file of this folder is on its way: begun, and not done."""
    names = set(names_in(folder))
    begun = {name.removesuffix(UPLOADING) for name in names if name.endswith(UPLOADING)}
    done = {name.removesuffix(UPLOADED) for name in names if name.endswith(UPLOADED)}
    # AWS's own cleaning waits for the same: uploading and not uploaded.
    return bool(begun - done)


def names_in(folder: str) -> list[str]:
    """Sorted names; none if the folder is not there (any more), or is none."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
