"""What S3 knows about objects: ETags, metadata, tags, checksums; uploads.

A row belongs to one state of one file (inode, size, time of change). So it is written before the
file gets its name: whenever the process is killed, each file has its own row or none.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    bucket TEXT, key BLOB, inode INT, size INT, mtime_ns INT, etag TEXT, details TEXT,
    PRIMARY KEY (bucket, key, inode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, created REAL, details TEXT);
CREATE TABLE IF NOT EXISTS uploads (
    id TEXT PRIMARY KEY, bucket TEXT, key BLOB, created REAL, details TEXT);
CREATE TABLE IF NOT EXISTS parts (
    upload TEXT, number INT, size INT, etag TEXT, file TEXT, modified REAL, details TEXT,
    PRIMARY KEY (upload, number)) WITHOUT ROWID;
"""
_BUSY_SECONDS = 60
_KEYS_PER_QUERY = 500  # older versions of sqlite take 999 values


class FileState(NamedTuple):
    """One state of one file."""

    inode: int
    size_bytes: int
    mtime_ns: int


def make_state(stat: os.stat_result) -> FileState:
    """The state that a file is in."""
    return FileState(stat.st_ino, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a client stored with an object."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """Content-Type and the like, as they are sent back."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Algorithm in lower case → value in Base64."""

    acl: str = ""
    """`public-read` or `public-read-write`; empty: for the owner only."""

    checksum_type: str = ""
    checksum_algorithm: str = ""
    """Of an upload that is under way: what its parts will carry."""

    upload: str = ""
    """The upload in parts that made it: a client may ask twice to complete it."""

    parts: Sequence[tuple[int, Mapping[str, str]]] = ()
    """Size and checksums of each part; empty unless it was uploaded in parts."""

    @classmethod
    def from_json(cls, text: str) -> Details:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({name: value for name, value in shown.items() if value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload in parts that is under way."""

    id: str
    bucket: str
    key: bytes
    created: float
    details: Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part that has arrived."""

    number: int
    size_bytes: int
    etag: str
    file: str
    """Its name in the folder of the upload."""

    modified: float
    checksums: Mapping[str, str]


class ObjectIndex:
    """A database that several threads and processes may use."""

    def __init__(self, file: Path) -> None:
        """A damaged file is set aside: ETags are computed again, metadata and tags are lost."""
        self._file = file
        self._writing = threading.Lock()
        self._idle: deque[sqlite3.Connection] = deque()
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, no space, no permission
                raise
            self.close()
            for name in (file, file.with_name(f"{file.name}-wal")):
                with suppress(FileNotFoundError):
                    name.replace(name.with_name(f"{name.name}.damaged"))
            print(f"{file} was damaged ({error}): a new one is made", file=sys.stderr, flush=True)
            self._prepare()

    def close(self) -> None:
        """Close all connections; no thread may be using one."""
        while self._idle:
            self._idle.pop().close()

    def find(self, bucket: str, key: bytes, state: FileState) -> tuple[str, str] | None:
        """ETag, and details as JSON, of a file in exactly this state."""
        found = self._read(
            "SELECT etag, details FROM objects WHERE bucket = ? AND key = ? AND inode = ?"
            " AND size = ? AND mtime_ns = ?",
            (bucket, key, state.inode, state.size_bytes, state.mtime_ns),
        )
        return found[0] if found else None

    def find_etags(
        self, bucket: str, keys: Sequence[bytes]
    ) -> dict[tuple[bytes, FileState], tuple[str, str]]:
        """ETags, and details as JSON, of many objects at once."""
        etags = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT * FROM objects WHERE bucket = ? AND key IN ({marks})"  # noqa: S608 - ?
            for _, key, inode, size, mtime_ns, etag, details in self._read(query, (bucket, *some)):
                etags[key, FileState(inode, size, mtime_ns)] = etag, details
        return etags

    def put(self, bucket: str, key: bytes, state: FileState, etag: str, details: Details) -> None:
        """Store a row; it acts when the file of this state has the object's name."""
        with self._change() as db:
            db.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)",
                (bucket, key, *state, etag, details.to_json()),
            )

    def remove(self, bucket: str, key: bytes, *, keep_inode: int = 0) -> None:
        """Forget an object, or the files it had before."""
        where = "FROM objects WHERE bucket = ? AND key = ? AND inode <> ?"
        values = (bucket, key, keep_inode)
        if self._read(f"SELECT 1 {where}", values):  # most have none: a write costs more
            with self._change() as db:
                db.execute(f"DELETE {where}", values)

    def put_bucket(self, name: str, created: float, details: Details) -> None:
        """Remember when a bucket was made, its tags and its ACL."""
        with self._change() as db:
            row = (name, created, details.to_json())
            db.execute("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?)", row)

    def find_bucket(self, name: str) -> tuple[float, Details] | None:
        """When a bucket was made, and its details; None for a folder that was made by hand."""
        found = self._read("SELECT created, details FROM buckets WHERE name = ?", (name,))
        return (found[0][0], Details.from_json(found[0][1])) if found else None

    def remove_bucket(self, name: str) -> None:
        """Forget a bucket."""
        with self._change() as db:
            db.execute("DELETE FROM buckets WHERE name = ?", (name,))
            db.execute("DELETE FROM objects WHERE bucket = ?", (name,))

    def add_upload(self, upload: Upload) -> None:
        """Remember an upload that begins."""
        with self._change() as db:
            row = (upload.id, upload.bucket, upload.key, upload.created, upload.details.to_json())
            db.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?)", row)

    def list_uploads(self, bucket: str, upload_id: str = "") -> list[Upload]:
        """The uploads of a bucket that are under way, in the order of keys; or one of them."""
        rows = self._read(
            "SELECT id, bucket, key, created, details FROM uploads WHERE bucket = ?"
            " AND (? = '' OR id = ?) ORDER BY key, created, id",
            (bucket, upload_id, upload_id),
        )
        return [
            Upload(id=id_, bucket=of, key=key, created=at, details=Details.from_json(details))
            for id_, of, key, at, details in rows
        ]

    def remove_upload(self, upload_id: str) -> None:
        """Forget an upload and its parts."""
        with self._change() as db:
            db.execute("DELETE FROM uploads WHERE id = ?", (upload_id,))
            db.execute("DELETE FROM parts WHERE upload = ?", (upload_id,))

    def put_part(self, upload_id: str, part: Part) -> None:
        """Store a part, in place of an earlier one of the same number."""
        with self._change() as db:
            db.execute(
                "INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(upload_id, part.number, part.size_bytes, part.etag, part.file),
                    *(part.modified, json.dumps(dict(part.checksums))),
                ),
            )

    def list_parts(self, upload_id: str) -> list[Part]:
        """The parts that have arrived, in their order."""
        rows = self._read(
            "SELECT number, size, etag, file, modified, details FROM parts WHERE upload = ?"
            " ORDER BY number",
            (upload_id,),
        )
        return [
            Part(
                number=number,
                size_bytes=size,
                etag=etag,
                file=file,
                modified=modified,
                checksums=json.loads(details),
            )
            for number, size, etag, file, modified, details in rows
        ]

    def _prepare(self) -> None:
        with self._change() as db:
            db.executescript(_SCHEMA)

    def _read(self, query: str, values: Iterable[object]) -> list[Any]:
        with self._connection() as db:
            return db.execute(query, tuple(values)).fetchall()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        # The lock: a thread that finds the database busy would sleep, not wait.
        with self._writing, self._connection() as db, db:
            yield db

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._connect()
        try:
            yield db
        finally:
            self._idle.append(db)

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, timeout=_BUSY_SECONDS, check_same_thread=False)
        # A killed process loses nothing by this; no write waits for the disk.
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        return db
