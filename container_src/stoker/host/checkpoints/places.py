"""Where checkpoints lie: a folder of this machine, or a prefix on S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.checkpoints.store import Store
from stoker.host.checkpoints.sagemaker import open_bucket_store
from stoker.host.failures import UsageRefused


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
