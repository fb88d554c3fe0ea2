"""Saved tensors in a folder or on S3: there the index is fetched at once, a tensor when read."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from stoker.contract.debugger import END_MARKER
from stoker.debugging.tensors import SavedTensors
from stoker.debugging.tensors.decoding import Fields
from stoker.debugging.tensors.encoding import FOOTER
from stoker.debugging.tensors.event_files import EventFile, Location
from stoker.debugging.tensors.layout import COLLECTIONS, DESCRIPTIONS, EVENTS, INDEX
from stoker.errors import TensorsUnreadable
from stoker.machine.places import open_place
from stoker.storage.s3 import S3Prefix

_NOTES = {COLLECTIONS.partition("/")[0], DESCRIPTIONS, INDEX}
_AT_ONCE = 10  # botocore keeps that many connections
_WHOLE_BYTES = 4 << 20
"""A file up to that size is fetched whole; of a larger one, the tensors that are looked at."""
_HEAD_BYTES, _HEAD_BYTES_PER_LETTER, _TAIL_BYTES = 1024, 8, 256
"""Around the content of a record; each dimension repeats the tensor's name."""

Fetch = Callable[[int, int], bytes]
"""Start, length → those bytes of an object."""


class BucketFile(EventFile):
    """A file of a bucket, as a file with holes that are filled when they are read."""

    def __init__(self, path: str, size_bytes: int, fetch: Fetch) -> None:
        super().__init__(path)
        self._size_bytes, self._fetch = size_bytes, fetch
        self._fetched: set[tuple[int, int]] = set()
        self._lock = RLock()  # several threads may look at tensors of one file

    def fields(self, name: str, location: Location) -> Fields:
        """As `EventFile` does it, with a content that may not be there yet."""
        start, length = location.start, location.length
        head = _HEAD_BYTES + _HEAD_BYTES_PER_LETTER * len(name)
        if length <= head + _TAIL_BYTES:
            self._fill(start, length)
        elif (start, length) not in self._fetched:
            self._fill(start, head)
            self._fill(start + length - _TAIL_BYTES, _TAIL_BYTES)
            end = start + length
            # Our own writer ends a record with this placeholder; other writers with a CRC of the
            # content.
            if self._map()[end - len(FOOTER) : end] != FOOTER:
                self._fill(start, length)  # a true checksum, which is of all of it
        return super().fields(name, location)

    def array(self, name: str, location: Location) -> Any:  # noqa: ANN401 - as EventFile's
        """As `EventFile` does it."""
        self._fill(location.start, location.length)
        return super().array(name, location)

    def _fill(self, start: int, length: int) -> None:
        if self._size_bytes <= _WHOLE_BYTES:
            with self._lock:
                self._fetch_range(0, self._size_bytes)
        else:
            self._fetch_range(start, length)

    def _fetch_range(self, start: int, length: int) -> None:
        # A damaged index may point anywhere; what is not there the reader will miss.
        length = min(length, self._size_bytes - start)
        if start < 0 or length <= 0 or (start, length) in self._fetched:
            return
        content = self._fetch(start, length)
        self._map()[start : start + len(content)] = content
        self._fetched.add((start, length))

    def _map(self) -> memoryview:
        with self._lock:
            if self._content is None:
                # Without a name: it is gone with the last array that looks into it.
                with tempfile.TemporaryFile() as file:
                    file.truncate(self._size_bytes)
                    self._content = memoryview(mmap.mmap(file.fileno(), self._size_bytes))
            return self._content


class BucketTensors(SavedTensors):
    """The tensors under a prefix."""

    def __init__(self, folder: Path, prefix: S3Prefix) -> None:
        self._prefix = prefix
        self._size_bytes: dict[str, int] = {}
        """Of the event files."""
        self._lay_out(folder)
        super().__init__(folder)

    def open_events(self, name: str) -> EventFile:
        """As `SavedTensors` does it.

        Raises:
            TensorsUnreadable: it is not in the bucket, or is empty.
        """
        if not self._size_bytes.get(name):
            raise TensorsUnreadable(
                f"{self._prefix.uri(name)} is missing or empty",
                fix="it may not have been uploaded yet; the other steps can still be read",
            )

        def fetch(start: int, length: int) -> bytes:
            return self._prefix.read(name, start=start, size_bytes=length)

        return BucketFile(self._prefix.uri(name), self._size_bytes[name], fetch)

    def _lay_out(self, folder: Path) -> None:
        notes = []
        for found in self._prefix.list():
            if not found.is_file:
                continue
            parts = found.name.split("/")
            if parts[0] == EVENTS:
                self._size_bytes[found.name] = found.size_bytes
            elif (parts[0] in _NOTES and len(parts) > 1) or found.name == END_MARKER:
                notes.append(found.name)
            else:
                _leave_trace(folder, parts)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda name: self._download(folder / name, name), notes):
                pass  # for its errors

    def _download(self, file: Path, name: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self._prefix.read(name))


def open_tensors(place: str) -> AbstractContextManager[SavedTensors]:
    """The saved tensors of a folder, or of s3://BUCKET/PREFIX.

    Raises:
        UsageRefused: there is no such place.
        StorageFailed: S3 refuses, or cannot be reached.
    """
    return open_place(place, what="tensors", folder=SavedTensors, bucket=BucketTensors)


def _leave_trace(folder: Path, parts: list[str]) -> None:
    """Lets a message say what is there instead of tensors, or that they are deeper."""
    with suppress(OSError):
        if len(parts) == 1:
            folder.joinpath(parts[0]).touch()
        else:
            folder.joinpath(*parts[:-1][:3]).mkdir(parents=True, exist_ok=True)
