"""What is below a prefix on S3, through a boto3 client that the caller has made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from stoker.errors import PreparationFailed

_DELETED_AT_ONCE = 1000  # the most that DeleteObjects takes


class S3Object(NamedTuple):
    """An object below a prefix."""

    name: str
    """What comes after the prefix."""
    size_bytes: int
    modified: datetime

    @property
    def is_file(self) -> bool:
        """Whether a folder can have a file of this name."""
        return not {"", ".", ".."} & set(self.name.split("/"))


class S3Prefix:
    """The objects whose keys begin with a prefix."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:  # noqa: ANN401 - boto3 publishes no types
        self._client = client
        self._bucket = bucket
        # With the slash: `run` alone is also the beginning of `run-2/`.
        self._prefix = f"{key.strip('/')}/" if key.strip("/") else ""

    def uri(self, name: str = "") -> str:
        """The address of an object."""
        return f"s3://{self._bucket}/{self._prefix}{name}"

    def list(self) -> Iterator[S3Object]:
        """All objects, as far as S3 has them when they are asked for."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        for found in (found for page in pages for found in page.get("Contents", ())):
            name = found["Key"].removeprefix(self._prefix)
            yield S3Object(name, found["Size"], found["LastModified"])

    def read(self, name: str, *, start: int = 0, size_bytes: int | None = None) -> bytes:
        """The content of an object, or of a part of it."""
        part = {} if size_bytes is None else {"Range": f"bytes={start}-{start + size_bytes - 1}"}
        answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name, **part)
        content: bytes = answer["Body"].read()
        return content

    def download(self, name: str, file: Path) -> None:
        """Copies an object to a file; large ones in several parts at once."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._client.download_file(self._bucket, self._prefix + name, str(file))

    def delete(self, names: Sequence[str]) -> dict[str, str]:
        """Deletes objects. Returns those that S3 did not delete: name → reason."""
        refused: dict[str, str] = {}
        for at in range(0, len(names), _DELETED_AT_ONCE):
            keys = [{"Key": self._prefix + name} for name in names[at : at + _DELETED_AT_ONCE]]
            answer = self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True}
            )
            for found in answer.get("Errors", ()):
                refused[found["Key"].removeprefix(self._prefix)] = found["Message"]
        return refused


def split_uri(uri: str) -> tuple[str, str]:
    """The bucket and the key of `s3://BUCKET/KEY`; either may be empty."""
    parts = urlsplit(uri, allow_fragments=False)
    return parts.netloc, parts.path.lstrip("/")


def download(client: Any, uri: str, folder: Path, *, fix: str) -> Path:  # noqa: ANN401 - as above
    """Copies an object, or everything below a prefix, into a folder.

    Returns:
        The file, or the folder.

    Raises:
        PreparationFailed: nothing is there, or a name would leave the folder.
    """
    bucket, key = split_uri(uri)
    folder.mkdir(parents=True, exist_ok=True)
    if _exists(client, bucket, key):
        file = folder / Path(key).name
        client.download_file(bucket, key, str(file))
        return file
    prefix = S3Prefix(client, bucket, key)
    names = [found.name for found in prefix.list() if found.name]
    if not names:
        raise PreparationFailed(f"{uri} does not exist", fix=fix)
    for name in names:
        # Keys are arbitrary texts, and this one becomes a path.
        if ".." in name.split("/"):
            raise PreparationFailed(f"{prefix.uri(name)} leaves its folder", fix=fix)
        if not name.endswith("/"):
            prefix.download(name, folder / name)
    return folder


def _exists(client: Any, bucket: str, key: str) -> bool:  # noqa: ANN401 - as above
    """Without listing: a role that may read one object need not be allowed to list the bucket."""
    if not key or key.endswith("/"):
        return False
    try:
        client.head_object(Bucket=bucket, Key=key)
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NotFound"):
            return False
        raise
    return True
