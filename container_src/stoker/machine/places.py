"""What a command looks at: a folder of this machine, or s3://BUCKET/PREFIX."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from stoker.machine.aws import aws_errors, make_session
from stoker.machine.failures import StorageFailed, UsageRefused
from stoker.storage.s3 import S3Prefix, split_uri

Opened = TypeVar("Opened")


@contextmanager
def open_place(
    place: str,
    *,
    what: str,
    folder: Callable[[str], Opened],
    bucket: Callable[[Path, S3Prefix], Opened],
) -> Iterator[Opened]:
    """Opens a place.

    Args:
        place: a folder, or s3://BUCKET/PREFIX.
        what: of which it should be the folder, such as "tensors".
        folder: opens a folder.
        bucket: opens a prefix; its first argument is an empty folder to lay out what is fetched,
            removed at the end.

    Raises:
        UsageRefused: there is no such place.
        StorageFailed: S3 refuses, or cannot be reached.
    """
    if not place.startswith("s3://"):
        if not Path(place).is_dir():
            raise UsageRefused(
                f"{place} is not a folder", fix=f"name the folder of {what}, or s3://BUCKET/PREFIX"
            )
        yield folder(place)
        return
    name, key = split_uri(place)
    if not name:
        raise UsageRefused(f"{place} names no bucket", fix="s3://BUCKET/PREFIX")
    with tempfile.TemporaryDirectory(prefix="stoker-s3-") as scratch:
        prefix = S3Prefix(make_session().client("s3"), name, key)
        try:
            yield bucket(Path(scratch), prefix)
        except aws_errors() as error:
            raise StorageFailed(
                f"{place}: {error}", fix="check the address, the credentials and the region"
            ) from error
