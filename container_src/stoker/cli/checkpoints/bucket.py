"""Checkpoints in a folder of this machine or under a prefix on S3."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from stoker.checkpoints import manifest
from stoker.checkpoints.store import Checkpoint, Store
from stoker.machine.failures import StorageFailed, UsageRefused
from stoker.machine.places import open_place
from stoker.storage.s3 import S3Object, S3Prefix

_NO_FILE_NAME = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}


class BucketStore(Store):
    """The checkpoints under a prefix."""

    def __init__(self, folder: Path, prefix: S3Prefix) -> None:
        """Lays out manifests and, in place of all other files, holes of the same size.

        Raises:
            UsageRefused: nothing is there.
        """
        super().__init__(folder)
        self._prefix = prefix
        for found in prefix.list():
            self._lay_out(found)
        if not os.listdir(folder):
            raise UsageRefused(f"there is nothing in {prefix.uri()}", fix="check the address")

    def verify(self, checkpoint: Checkpoint) -> str:
        """As `Store` does it, on a copy that is gone afterwards."""
        if checkpoint.manifest is None or checkpoint.problem:
            return super().verify(checkpoint)
        shards = checkpoint.manifest.shards
        try:
            for shard in shards:
                self._download(f"{checkpoint.name}/{shard.name}")
            return super().verify(checkpoint)
        finally:
            for shard in shards:
                _make_hole(Path(checkpoint.path, shard.name), shard.size_bytes)

    def prune(self, *, keep: int, dry_run: bool = False, trust: str = "") -> list[Checkpoint]:
        """As `Store` does it; a checkpoint loses its manifest first, so no half of it counts."""
        doomed = super().prune(keep=keep, dry_run=True, trust=trust)
        for checkpoint in [] if dry_run else doomed:
            names = [f"{checkpoint.name}/{name}" for name in _files_below(checkpoint.path)]
            first = f"{checkpoint.name}/{manifest.NAME}"
            # A request of its own: DeleteObjects promises no order among its keys.
            self._delete([first])
            self._delete([name for name in names if name != first])
        return doomed

    def _lay_out(self, found: S3Object) -> None:
        if not found.is_file:
            return
        file = Path(self.folder, found.name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if found.name.count("/") == 1 and file.name == manifest.NAME:
                self._download(found.name)
            else:
                _make_hole(file, found.size_bytes)
            seconds = found.modified.timestamp()
            # For what goes by age, such as an upload that seems to have stopped.
            os.utime(file, (seconds, seconds))
        except OSError as error:
            if error.errno not in _NO_FILE_NAME:
                raise

    def _download(self, name: str) -> None:
        self._prefix.download(name, Path(self.folder, name))

    def _delete(self, names: Sequence[str]) -> None:
        for name, reason in self._prefix.delete(names).items():
            raise StorageFailed(
                f"S3 did not delete {self._prefix.uri(name)}: {reason}",
                fix="check the permission s3:DeleteObject",
            )


def open_store(place: str) -> AbstractContextManager[Store]:
    """The checkpoints of a folder, or of s3://BUCKET/PREFIX.

    Raises:
        UsageRefused: there is no such place.
        StorageFailed: S3 refuses, or cannot be reached.
    """
    return open_place(place, what="checkpoints", folder=Store, bucket=BucketStore)


def _make_hole(file: Path, size_bytes: int) -> None:
    with file.open("wb") as handle:
        handle.truncate(size_bytes)


def _files_below(folder: str) -> list[str]:
    files = (file for file in Path(folder).rglob("*") if not file.is_dir())
    return sorted(str(PurePosixPath(file.relative_to(folder))) for file in files)
