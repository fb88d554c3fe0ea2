"""Where saved tensors lie: a folder of this machine, or a prefix on S3."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.cli.tensors.sagemaker import open_bucket_tensors
from stoker.debugging.tensors import SavedTensors
from stoker.debugging.tensors.layout import COLLECTIONS, INDEX
from stoker.machine.failures import UsageRefused

_MARKS = (INDEX, COLLECTIONS.partition("/")[0])


@contextmanager
def open_tensors(place: str) -> Iterator[SavedTensors]:
    """The saved tensors of a place.

    Args:
        place: a folder, or s3://BUCKET/PREFIX.

    Raises:
        UsageRefused: there is no such place.
        StorageFailed: S3 refuses.
    """
    if place.startswith("s3://"):
        with open_bucket_tensors(place) as saved:
            yield saved
        return
    if not Path(place).is_dir():
        raise UsageRefused(
            f"{place} is no folder", fix="name the folder of tensors, or s3://BUCKET/PREFIX"
        )
    yield SavedTensors(place)


def require_tensors(saved: SavedTensors, place: str) -> None:
    """
    Raises:
        UsageRefused: none were saved there; says what is there instead.
    """
    if saved.steps() or saved.collections:
        return
    if saved.damaged:
        raise UsageRefused(
            f"{place} holds saved tensors, but none of its {len(saved.damaged)} index files can"
            f" be read: {next(iter(saved.damaged.values())).message}",
            fix="copy the folder again",
        )
    raise UsageRefused(f"no saved tensors lie in {place}: {_content(saved)}", fix=_near(saved))


def _content(saved: SavedTensors) -> str:
    names = sorted(entry.name for entry in Path(saved.folder).iterdir())
    if not names:
        return "there is nothing"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"there is {', '.join(names[:5])}{more}"


def _near(saved: SavedTensors) -> str:
    """Jobs put them a folder or two deeper."""
    for pattern in ("*", "*/*"):
        # Not pathlib's: those raise where a folder may not be looked into, or has just gone.
        for folder in sorted(glob.glob(f"{glob.escape(str(saved.folder))}/{pattern}")):
            if all(os.path.isdir(f"{folder}/{mark}") for mark in _MARKS):
                return f"did you mean {os.path.relpath(folder, saved.folder)} in it?"
    return "name the folder that holds `index`, `events` and `collections`"
