"""Where records go: a file that grows, or objects on S3, which cannot grow."""

from __future__ import annotations

import itertools
import os
import socket
import time
from typing import Protocol

from stoker.contract.files import open_regular

_SERIAL = itertools.count()
_UPLOAD_SECONDS = 15.0
_LARGEST_OBJECT_BYTES = 8 << 20


class Sink(Protocol):
    """Both methods raise OSError."""

    def write(self, records: bytes) -> None:
        """Takes whole records, all of them or none."""

    def sync(self, *, urgent: bool) -> bool:
        """Passes on what is held, if it is time to; returns whether something is still held."""

    def close(self) -> None: ...


def make_event_sink(folder: str, suffix: str, header: bytes) -> Sink:
    """A fresh event file in a folder, or below a prefix like `s3://bucket/runs/1`.

    Args:
        folder: where TensorBoard looks for event files.
        suffix: the end of the file's name.
        header: the records every file begins with.
    """
    if folder.startswith("s3://"):
        return S3Objects(folder.rstrip("/"), suffix, header)
    return LocalFile(os.path.join(folder, _make_name(suffix)), header)


class LocalFile:
    """Unbuffered: what is written can be read at once, and survives this process."""

    def __init__(self, path: str, header: bytes = b"") -> None:
        self._path, self._header = path, header
        self._file: int | None = None
        self._length = 0

    def write(self, records: bytes) -> None:
        if self._file is None:
            self._open()
            records = self._header + records
        assert self._file is not None  # noqa: S101 - _open has seen to it
        try:
            view = memoryview(records)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            # Readers give up at a broken record, even if whole ones follow.
            os.ftruncate(self._file, self._length)
            if self._length == 0:
                self.close()  # so that the header is written again
            raise
        self._length += len(records)

    def sync(self, *, urgent: bool) -> bool:
        del urgent  # nothing is held back here
        if self._file is None and self._header:
            self.write(b"")  # TensorBoard shows a run from its header on
        return False

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        # O_APPEND: after a truncation the next write goes to the new end.
        self._file = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._length = os.fstat(self._file).st_size


class S3Objects:
    """Each upload replaces the object by a longer one; a full one is followed by another."""

    def __init__(self, folder: str, suffix: str, header: bytes) -> None:
        self._folder, self._suffix, self._header = folder, suffix, header
        self._uploaded_at = float("-inf")
        self._begin()

    def write(self, records: bytes) -> None:
        if len(self._content) > _LARGEST_OBJECT_BYTES:
            self._upload()
            self._begin()
        self._content += records
        self._is_stale = True

    def sync(self, *, urgent: bool) -> bool:
        is_due = urgent or time.monotonic() - self._uploaded_at > _UPLOAD_SECONDS
        if self._is_stale and is_due:
            self._upload()
        return self._is_stale

    def close(self) -> None:
        return

    def _upload(self) -> None:
        # AWS is reached from one module only, and it costs boto3's import.
        from stoker.metrics.aws import put_object

        self._uploaded_at = time.monotonic()
        put_object(self._uri, bytes(self._content))
        self._is_stale = False

    def _begin(self) -> None:
        self._uri = f"{self._folder}/{_make_name(self._suffix)}"
        self._content = bytearray(self._header)
        self._is_stale = True  # also when nothing follows: TensorBoard shows the run


def _make_name(suffix: str) -> str:
    # TensorBoard reads a folder's files in the order of their names.
    host, serial = socket.gethostname(), next(_SERIAL)
    return f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{serial}{suffix}"
