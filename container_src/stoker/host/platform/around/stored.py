"""An object of S3: as a list shows it, and as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.host.platform.around.s3_uri import S3Uri


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a list shows it."""

    uri: S3Uri
    size_bytes: int


class OpenObject:
    """The content of an object, read as it comes."""

    def __init__(self, body: Any, size_bytes: int) -> None:  # noqa: ANN401 - botocore is untyped
        self._body = body
        self.size_bytes = size_bytes

    def read(self, size: int | None = None) -> bytes:
        """The next bytes; none at the end."""
        content: bytes = self._body.read(None if size is None or size < 0 else size)
        return content
