"""Buckets as folders and objects as files, with the index of what else S3 knows about them.

`ROOT/s3/<bucket>/<key>` is the file of an object (see object_paths for keys that no path can be);
`ROOT/s3/.stoker` has the index, and what is being received. One process serves; any may read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stoker.platform.s3.folder_keys import FolderReader, Page, is_regular
from stoker.platform.s3.object_index import Details, FileState, ObjectIndex, make_state
from stoker.platform.s3.object_paths import encode_key, encode_next_to_folder, place_file

_OWN = ".stoker"
_TRIES = 5  # a try fails only when another writer has just succeeded
_CHUNK_BYTES = 1 << 20
_PAGE = 1000  # S3's limit of one page


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An object and its file."""

    key: str
    file: Path
    size_bytes: int
    etag: str
    """Without quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What is known about an object."""

    key: bytes
    path: bytes
    state: FileState
    etag: str
    details_json: str
    """Read only when asked for: a list of 100,000 objects does not need it."""

    @property
    def details(self) -> Details:
        return Details.from_json(self.details_json)

    @property
    def size_bytes(self) -> int:
        return self.state.size_bytes

    @property
    def modified(self) -> float:
        """Seconds since the epoch; whole ones, as HTTP has them."""
        return float(self.state.mtime_ns // 1_000_000_000)


class BucketMissing(Exception):
    """There is no such bucket."""


class ObjectStore:
    """The objects of one folder of buckets; may be used from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own_dir = folder / _OWN
        self.own_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.index = ObjectIndex(self.own_dir / "index.sqlite")
        self._incoming = self.own_dir / "incoming"
        self._incoming.mkdir(exist_ok=True)
        self._reader = FolderReader()
        self.committing = threading.RLock()
        """Held while an object is replaced or removed: conditions hold until it has happened."""

    def close(self) -> None:
        """Close the index."""
        self.index.close()

    def remove_half_received(self) -> None:
        """What a killed server leaves of uploads is not an object, but takes space."""
        for file in self._incoming.iterdir():
            file.unlink(missing_ok=True)

    # ---- For jobs and commands on this machine ----

    def find_file(self, bucket: str, key: str) -> Path | None:
        """The file of an object; None if there is no such object. Its bytes are never changed in
        place by S3: a new object is a new file.
        """
        found = self._locate(bucket, key.encode())
        return Path(os.fsdecode(found[0])) if found else None

    def list_files(self, bucket: str, prefix: str = "") -> Iterator[StoredFile]:
        """Every object whose key begins with the prefix, in the order of keys.

        Raises:
            BucketMissing: there is no such bucket.
        """
        after: bytes | None = b""
        while after is not None:
            page = self.list_page(bucket, prefix=prefix.encode(), after=after, limit=_PAGE)
            for info in self.read_infos(bucket, page):
                yield StoredFile(
                    key=info.key.decode(),
                    file=Path(os.fsdecode(info.path)),
                    size_bytes=info.size_bytes,
                    etag=info.etag,
                )
            after = page.next_after

    # ---- Buckets ----

    def bucket_dir(self, bucket: str) -> bytes:
        """The folder of a bucket.

        Raises:
            BucketMissing: there is no such bucket.
        """
        folder = os.fsencode(self.folder) + b"/" + bucket.encode()
        if not _is_bucket_name(bucket) or not os.path.isdir(folder):
            raise BucketMissing(bucket)
        return folder

    def has_bucket(self, bucket: str) -> bool:
        """Whether there is such a bucket."""
        try:
            self.bucket_dir(bucket)
        except BucketMissing:
            return False
        return True

    def list_buckets(self) -> list[str]:
        """All buckets, in the order of names; a folder made by hand is one, too."""
        with os.scandir(self.folder) as entries:
            return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))

    def make_bucket(self, bucket: str) -> None:
        """Make a bucket that is not there."""
        (self.folder / bucket).mkdir()
        self.index.put_bucket(bucket, time.time(), Details())

    def read_bucket(self, bucket: str) -> tuple[float, Details]:
        """When a bucket was made, and what is stored with it.

        Raises:
            BucketMissing: there is no such bucket.
        """
        made = os.stat(self.bucket_dir(bucket)).st_ctime
        return self.index.find_bucket(bucket) or (made, Details())

    def change_bucket(self, bucket: str, details: Details) -> None:
        """Store other tags or another ACL of a bucket."""
        self.index.put_bucket(bucket, self.read_bucket(bucket)[0], details)

    def remove_bucket(self, bucket: str) -> bool:
        """Remove a bucket; False if it is not empty."""
        folder = self.bucket_dir(bucket)
        with self.committing:
            for path in _list_folders(folder):
                with suppress(OSError):  # not empty
                    os.rmdir(path)
            if os.path.isdir(folder):
                return False
            self.index.remove_bucket(bucket)
            return True

    # ---- Objects ----

    def find(self, bucket: str, key: bytes) -> ObjectInfo | None:
        """An object; None if there is none.

        Raises:
            BucketMissing: there is no such bucket.
        """
        found = self._locate(bucket, key)
        if found is None:
            self.bucket_dir(bucket)
            return None
        path, status = found
        return self._describe(bucket, key, path, make_state(status))

    def open(self, bucket: str, key: bytes) -> tuple[BinaryIO, ObjectInfo] | None:
        """An object with its file, which stays whole even if the object is replaced meanwhile."""
        for _ in range(_TRIES):
            found = self._locate(bucket, key)
            if found is None:
                self.bucket_dir(bucket)
                return None
            try:
                file = open(found[0], "rb", buffering=0)  # noqa: SIM115 - the caller closes it
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                continue  # it was replaced, or got its other name
            info = self._describe(bucket, key, found[0], make_state(os.fstat(file.fileno())))
            if info is not None:
                return file, info
            file.close()
        return None

    def list_page(
        self,
        bucket: str,
        *,
        prefix: bytes = b"",
        delimiter: bytes = b"",
        after: bytes = b"",
        limit: int = _PAGE,
    ) -> Page:
        """A page of a bucket's keys, see `FolderReader.list_page`."""
        folder = self.bucket_dir(bucket)
        return self._reader.list_page(
            folder, prefix=prefix, delimiter=delimiter, after=after, limit=limit
        )

    def read_infos(self, bucket: str, page: Page) -> Iterator[ObjectInfo]:
        """What is known about the objects of a page; those that are gone meanwhile are not."""
        known = self.index.find_etags(bucket, [key for key, _ in page.files])
        for key, path in page.files:
            try:
                state = make_state(os.lstat(path))
            except OSError:
                continue
            row = known.get((key, state))
            if row is None:
                info = self._describe(bucket, key, path, state)
                if info is not None:
                    yield info
                continue
            yield ObjectInfo(key=key, path=path, state=state, etag=row[0], details_json=row[1])

    @contextmanager
    def receiving(self) -> Iterator[BinaryIO]:
        """A new file on the disk of the buckets; removed unless it has been given a name."""
        path = self._incoming / secrets.token_hex(16)
        with open(path, "xb", buffering=0) as file:
            try:
                yield file
            finally:
                path.unlink(missing_ok=True)

    def commit(
        self,
        bucket: str,
        key: bytes,
        file: BinaryIO,
        *,
        etag: str,
        details: Details,
        check: Callable[[ObjectInfo | None], None] | None = None,
    ) -> ObjectInfo:
        """Make a received file the object of a key, at once and as a whole.

        Args:
            bucket: where.
            key: of the object.
            file: from `receiving`, or another file on the same disk.
            etag: without quotes.
            details: what is stored with it.
            check: gets the object that is there now; raises if it must not be replaced.

        Raises:
            BucketMissing: there is no such bucket.
        """
        with self.committing:
            if check is not None:
                check(self.find(bucket, key))
            state = make_state(os.fstat(file.fileno()))
            self.index.put(bucket, key, state, etag, details)
            # In this order: a process that is killed in between leaves a row that fits no file.
            path = place_file(os.fsencode(file.name), self.bucket_dir(bucket), key)
            self.index.remove(bucket, key, keep_inode=state.inode)
        return ObjectInfo(
            key=key, path=path, state=state, etag=etag, details_json=details.to_json()
        )

    def change_details(self, bucket: str, info: ObjectInfo, details: Details) -> None:
        """Store other details of an object whose bytes stay."""
        self.index.put(bucket, info.key, info.state, info.etag, details)

    def remove(
        self, bucket: str, key: bytes, check: Callable[[ObjectInfo | None], None] | None = None
    ) -> None:
        """Remove an object, and folders that are empty then; none there is no error."""
        folder = self.bucket_dir(bucket)
        with self.committing:
            if check is not None:
                check(self.find(bucket, key))
            found = self._locate(bucket, key)
            if found is not None:
                os.unlink(found[0])
                above = os.path.dirname(found[0])
                with suppress(OSError):  # not empty
                    while len(above) > len(folder):
                        os.rmdir(above)
                        above = os.path.dirname(above)
            self.index.remove(bucket, key)

    def free_bytes(self) -> int:
        """What the disk has left."""
        return shutil.disk_usage(self.folder).free

    def _locate(self, bucket: str, key: bytes) -> tuple[bytes, os.stat_result] | None:
        folder = os.fsencode(self.folder) + b"/" + bucket.encode()
        if not _is_bucket_name(bucket):
            return None
        for encode in (encode_key, encode_next_to_folder):
            path = b"%s/%s" % (folder, encode(key))
            try:
                status = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
                continue
            if is_regular(status):
                return path, status
        return None

    def _describe(
        self, bucket: str, key: bytes, path: bytes, state: FileState
    ) -> ObjectInfo | None:
        row = self.index.find(bucket, key, state)
        if row is None:
            # Put there, or changed, by another program: its ETag is computed once.
            hashed = _hash(path)
            if hashed is None:
                return None
            state, etag = hashed
            self.index.put(bucket, key, state, etag, Details())
            row = etag, Details().to_json()
        return ObjectInfo(key=key, path=path, state=state, etag=row[0], details_json=row[1])


def _is_bucket_name(bucket: str) -> bool:
    return bool(bucket) and not bucket.startswith(".") and not {"/", "\0"} & set(bucket)


def _list_folders(folder: bytes) -> Iterator[bytes]:
    """A folder and all below it, the deepest first; not `os.walk`, which a deep key exceeds."""
    folders = [folder]
    for path in folders:
        with os.scandir(path) as entries:
            folders += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
    return reversed(folders)


def _hash(path: bytes) -> tuple[FileState, str] | None:
    """The MD5 of a file, and the state of the file that it belongs to."""
    try:
        with open(path, "rb", buffering=0) as file:
            for _ in range(_TRIES):
                file.seek(0)
                before = make_state(os.fstat(file.fileno()))
                digest = hashlib.md5(usedforsecurity=False)
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
                if make_state(os.fstat(file.fileno())) == before:
                    break
            # One that changes all the time has the ETag of what was read last.
            return before, digest.hexdigest()
    except OSError:
        return None
