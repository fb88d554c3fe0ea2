"""Checkpoints in a folder of this machine or under a prefix on S3."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from stoker.checkpoints import manifest
from stoker.checkpoints.store import Checkpoint, Store
from stoker.machine.aws import open_bucket
from stoker.machine.failures import StorageFailed, UsageRefused

_NO_FILE_NAME = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}
_DELETED_AT_ONCE = 1000  # the most that DeleteObjects takes


class BucketStore(Store):
    """The checkpoints under a prefix."""

    def __init__(self, folder: Path, client: Any, bucket: str, prefix: str) -> None:  # noqa: ANN401 - boto3 publishes no types
        super().__init__(folder)
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def lay_out(self) -> None:
        """Make the folder of holes and manifests."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        for page in pages:
            for found in page.get("Contents", ()):
                self._lay_out_one(found["Key"].removeprefix(self._prefix), found)

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
            self._delete([first])
            self._delete([name for name in names if name != first])
        return doomed

    def _lay_out_one(self, name: str, found: dict[str, Any]) -> None:
        parts = name.split("/")
        if not name or any(part in {"", ".", ".."} for part in parts):
            return  # no file of a folder
        file = Path(self.folder, name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if len(parts) == 2 and file.name == manifest.NAME:
                self._download(name)
            else:
                _make_hole(file, found["Size"])
            seconds = found["LastModified"].timestamp()
            os.utime(file, (seconds, seconds))
        except OSError as error:
            if error.errno not in _NO_FILE_NAME:
                raise

    def _download(self, name: str) -> None:
        self._client.download_file(self._bucket, self._prefix + name, f"{self.folder}/{name}")

    def _delete(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), _DELETED_AT_ONCE):
            keys = [{"Key": self._prefix + name} for name in names[at : at + _DELETED_AT_ONCE]]
            answer = self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True}
            )
            for refused in answer.get("Errors", ()):
                raise StorageFailed(
                    f"S3 did not delete {refused['Key']}: {refused['Message']}",
                    fix="check the permission s3:DeleteObject",
                )


@contextmanager
def open_bucket_store(place: str) -> Iterator[BucketStore]:
    """The checkpoints under s3://BUCKET/PREFIX.

    Raises:
        UsageRefused: it is no such address, or nothing lies there.
        StorageFailed: S3 refuses, or cannot be reached.
    """
    with open_bucket(place) as found:
        store = BucketStore(*found)
        store.lay_out()
        if not os.listdir(found.folder):
            raise UsageRefused(f"nothing lies under {place}", fix="check bucket and prefix")
        yield store


def _make_hole(file: Path, size_bytes: int) -> None:
    with file.open("wb") as handle:
        handle.truncate(size_bytes)


def _files_below(folder: str) -> list[str]:
    files = (file for file in Path(folder).rglob("*") if not file.is_dir())
    return sorted(str(PurePosixPath(file.relative_to(folder))) for file in files)


@contextmanager
def open_store(place: str) -> Iterator[Store]:
    """The checkpoints of a place.

    Args:
        place: a folder, or s3://BUCKET/PREFIX.

    Raises:
        UsageRefused: there is no such place.
        StorageFailed: S3 refuses.
    """
    if place.startswith("s3://"):
        with open_bucket_store(place) as store:
            yield store
        return
    if not Path(place).is_dir():
        raise UsageRefused(
            f"{place} is no folder", fix="name the folder of checkpoints, or s3://BUCKET/PREFIX"
        )
    yield Store(place)
