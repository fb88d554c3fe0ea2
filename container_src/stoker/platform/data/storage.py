"""Objects of the platform's S3: their addresses, and the client the jobs use."""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # no process listens; not Python's own
    HTTPClientError,
    IncompleteReadError,
)

from stoker.errors import HostError
from stoker.platform.data.failures import (
    DownloadFailed,
    TransferCancelled,
    UploadFailed,
    reading,
    storing,
)
from stoker.platform.model.root import REGION, SPARE_BYTES, Credentials


@dataclass(frozen=True, slots=True, order=True)
class S3Uri:
    """A bucket and a key in it; the key may be a prefix, or empty."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def join(self, *names: str) -> S3Uri:
        """The place below this one, with exactly one slash between the parts."""
        start = [self.key.rstrip("/")] if self.key.rstrip("/") else []
        return S3Uri(self.bucket, "/".join([*start, *names]))

    def name_below(self, prefix: S3Uri) -> str | None:
        """This key relative to a folder; None if it is not below it.

        `x/code` as a mere prefix also matches `x/code2/a`; as a folder it does not.
        """
        start = prefix.key if prefix.key.endswith("/") or not prefix.key else f"{prefix.key}/"
        if self.bucket != prefix.bucket or not self.key.startswith(start):
            return None
        return self.key[len(start) :]


def parse_uri(uri: str) -> S3Uri:
    """Read `s3://bucket/key`.

    Raises:
        HostError: it is not one.
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in ("s3", "https") or not bucket:
        raise HostError(f"{uri!r} is not an S3 address", fix="write it as s3://BUCKET/KEY")
    if scheme == "https":
        # The API takes https addresses, too: s3.amazonaws.com/bucket/key (path style).
        bucket, _, key = key.partition("/")
    return S3Uri(bucket, key)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a list shows it."""

    uri: S3Uri
    size_bytes: int
    etag: str = ""


OnBytes = Callable[[int], object]
"""Gets how many bytes more were copied."""


class CountedReads:
    """A file that tells how much of it was read; from the start again, if it is read again."""

    def __init__(self, file: BinaryIO | io.RawIOBase, on_bytes: OnBytes) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self._counted_bytes = 0

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size) or b""
        self._counted_bytes += len(content)
        self._on_bytes(len(content))
        return content

    def seek(self, offset: int, origin: int = os.SEEK_SET) -> int:
        self._on_bytes(-self._counted_bytes)
        self._counted_bytes = 0
        return self._file.seek(offset, origin)

    def tell(self) -> int:
        return self._file.tell()


class OpenObject:
    """The content of an object, read as it comes."""

    def __init__(self, body: Any, size_bytes: int) -> None:  # noqa: ANN401 - botocore is untyped
        self._body = body
        self.size_bytes = size_bytes

    def read(self, size: int | None = None) -> bytes:
        """The next bytes; none at the end."""
        return bytes(self._body.read(None if size is None or size < 0 else size))


_CHUNK_BYTES = 1 << 20
_TRIES, _PAUSE_SECONDS = 3, 0.5
_ANSWER_SECONDS = 60
_CONNECTIONS = 32
_MISSING = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NotFound"})
_BROKEN = (HTTPClientError, ConnectionError, IncompleteReadError)
# The user's own AWS settings are for the cloud: a profile there may not even exist here.
_NO_SETTINGS = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}


Answer = TypeVar("Answer")


class Storage:
    """Reads and writes objects; may be used from several threads."""

    def __init__(
        self,
        endpoint: str,
        credentials: Credentials,
        *,
        folder: Path | None = None,
        patience_seconds: float = 0.0,
    ) -> None:
        """Args:
        endpoint: where S3 answers.
        credentials: its keys.
        folder: where it keeps the objects: an upload that does not fit is not begun.
        patience_seconds: how long a server that died may take to be back.
        """
        self._folder = folder
        self._patience_seconds = patience_seconds
        self._client = botocore.session.Session(session_vars=_NO_SETTINGS).create_client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=credentials.access_key,
            aws_secret_access_key=credentials.secret_key,
            config=Config(
                # Loopback: TCP has checksums of its own.
                response_checksum_validation="when_required",
                request_checksum_calculation="when_required",
                proxies={},
                retries={"mode": "standard", "max_attempts": 5},
                connect_timeout=5,
                read_timeout=_ANSWER_SECONDS,
                max_pool_connections=_CONNECTIONS,
                # Loopback: hashing each body before it is sent would double the work.
                s3={"addressing_style": "path", "payload_signing_enabled": False},
            ),
        )

    def list(self, prefix: S3Uri | str) -> Iterator[StoredObject]:
        """Every object whose key begins with the prefix, in the order of keys, over all pages.

        Raises:
            DownloadFailed: there is no such bucket, or S3 does not answer.
        """
        start = _to_uri(prefix)
        wanted: dict[str, Any] = {"Bucket": start.bucket, "Prefix": start.key}
        page: dict[str, Any] = {"IsTruncated": True}
        while page.get("IsTruncated", False):
            with _downloading(start):
                page = self._patiently(lambda: self._client.list_objects_v2(**wanted))
            for found in page.get("Contents", []):
                uri = S3Uri(start.bucket, found["Key"])
                yield StoredObject(uri, found["Size"], found.get("ETag", ""))
            wanted["ContinuationToken"] = page.get("NextContinuationToken")

    def find_file(self, uri: S3Uri | str) -> Path | None:
        """The file of an object, if it is on this machine; S3 replaces it, but never writes it."""
        file = self._folder and self._folder / _to_uri(uri).bucket / _to_uri(uri).key
        return file if file and file.is_file() else None

    def exists(self, uri: S3Uri | str) -> bool:
        """Whether there is an object with exactly this key."""
        place = _to_uri(uri)
        try:
            with _downloading(place):
                self._client.head_object(Bucket=place.bucket, Key=place.key)
        except DownloadFailed as failure:
            if _is_missing(failure.__cause__):
                return False
            raise
        return True

    @contextmanager
    def open(self, uri: S3Uri | str) -> Iterator[OpenObject]:
        """An object's content as a stream.

        Raises:
            DownloadFailed: it is not there, or the stream broke.
        """
        place = _to_uri(uri)
        with _downloading(place):
            answer = self._patiently(
                lambda: self._client.get_object(Bucket=place.bucket, Key=place.key)
            )
            with answer["Body"] as body:
                yield OpenObject(body, answer["ContentLength"])

    def read(self, uri: S3Uri | str) -> bytes:
        """A small object as a whole."""
        with self.open(uri) as content:
            return content.read()

    def download(
        self,
        uri: S3Uri | str,
        target: Path | BinaryIO,
        *,
        cancelled: threading.Event | None = None,
        on_bytes: OnBytes | None = None,
    ) -> None:
        """Copy an object into a file; a stream that breaks is read again from its start.

        Raises:
            DownloadFailed: it is not there, S3 does not answer, or the path cannot be written.
            TransferCancelled: the event was set meanwhile.
            OSError: an open file that was passed in cannot be written.
        """
        place = _to_uri(uri)
        if isinstance(target, Path):
            with storing(place, target), target.open("wb") as file:
                self.download(place, file, cancelled=cancelled, on_bytes=on_bytes)
            return
        for attempt in range(1, _TRIES + 1):
            try:
                self._copy(place, target, cancelled or threading.Event(), on_bytes)
            except DownloadFailed as failure:
                if attempt == _TRIES or not isinstance(failure.__cause__, _BROKEN):
                    raise
            else:
                return

    def upload(
        self,
        source: Path | BinaryIO | io.RawIOBase,
        uri: S3Uri | str,
        *,
        patient: bool = False,
        on_bytes: OnBytes | None = None,
    ) -> None:
        """Make an object of a file, or of what can be read and sought, from its start.

        One request, however large: the server would keep the parts of several in memory. If it
        does not answer, only a patient caller waits for it.

        Raises:
            UploadFailed: the file cannot be read, or S3 does not take it.
        """
        place = _to_uri(uri)
        if isinstance(source, Path):
            with reading(source, source), source.open("rb") as file:
                self.upload(file, place, patient=patient, on_bytes=on_bytes)
            return

        self._require_room(place, source.seek(0, os.SEEK_END))

        body = CountedReads(source, on_bytes) if on_bytes else source

        def put() -> None:
            body.seek(0)
            self._client.put_object(Bucket=place.bucket, Key=place.key, Body=body)

        with _uploading(place):
            self._patiently(put) if patient else put()

    def _require_room(self, place: S3Uri, size_bytes: int) -> None:
        if self._folder is None:
            return
        free_bytes = shutil.disk_usage(self._folder).free
        if size_bytes + SPARE_BYTES > free_bytes:
            raise UploadFailed(
                f"{place} cannot be written: the disk of {self._folder} is full: it has "
                f"{free_bytes:,} bytes free, the object has {size_bytes:,}",
                fix=f"free space on that disk (`df -h {self._folder}`), then submit the job again",
            )

    def delete(self, uri: S3Uri | str) -> None:
        """Remove an object; none there is no error."""
        place = _to_uri(uri)
        with _uploading(place):
            self._client.delete_object(Bucket=place.bucket, Key=place.key)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _patiently(self, call: Callable[[], Answer]) -> Answer:
        """Ask again while there is no answer: a server that died is started again."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return call()
            except _BROKEN:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _copy(
        self, uri: S3Uri, target: BinaryIO, cancelled: threading.Event, on_bytes: OnBytes | None
    ) -> None:
        with self.open(uri) as content:
            if target.tell():  # a stream has broken before
                if on_bytes:
                    on_bytes(-target.tell())
                target.seek(0)
                target.truncate()
            while chunk := content.read(_CHUNK_BYTES):
                if cancelled.is_set():
                    raise TransferCancelled(f"the download of {uri} was cancelled")
                target.write(chunk)
                if on_bytes:
                    on_bytes(len(chunk))
            target.flush()


def _to_uri(uri: S3Uri | str) -> S3Uri:
    return parse_uri(uri) if isinstance(uri, str) else uri


@contextmanager
def _downloading(uri: S3Uri) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise DownloadFailed(
            f"{uri} cannot be read: {_say(error)}", fix=_make_fix(error, uri)
        ) from error


@contextmanager
def _uploading(uri: S3Uri) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise UploadFailed(
            f"{uri} cannot be written: {_say(error)}", fix=_make_fix(error, uri)
        ) from error


def _is_missing(error: BaseException | None) -> bool:
    return isinstance(error, ClientError) and error.response["Error"].get("Code") in _MISSING


def _say(error: ClientError | BotoCoreError) -> str:
    if _is_missing(error):
        return "there is no such object or bucket"
    return str(error)


def _make_fix(error: ClientError | BotoCoreError, uri: S3Uri) -> str:
    if _is_missing(error):
        return f"look what is there: aws s3 ls s3://{uri.bucket}/; it may have been removed"
    if isinstance(error, ClientError):
        return "if the text does not say why: see server.log, and the free space of its disk"
    return "the platform's S3 does not answer: see server.log, or start it again"
