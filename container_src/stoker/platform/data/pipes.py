"""Pipe mode: a FIFO per channel and epoch, fed from S3 as fast as the job reads."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import os
import select
import stat
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from stoker.platform.data.channels import DATA, list_hosts, take_share
from stoker.platform.data.confined import open_folder
from stoker.platform.data.failures import DownloadFailed, storing
from stoker.platform.data.objects import list_objects, read_augmented_manifest
from stoker.platform.data.storage import S3Uri, Storage
from stoker.platform.model.request import ChannelSource, TrainingRequest

_LOOK_SECONDS = 0.2
_PIPE_BYTES = 1 << 20  # the most that Linux grants to an ordinary user
_FIFO = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class _Stopped(Exception):
    """The job is over."""


class Pipes:
    """Feeds the Pipe channels of one host, from start to stop."""

    def __init__(
        self,
        request: TrainingRequest,
        host: str,
        storage: Storage,
        host_dir: Path,
        *,
        on_failure: Callable[[], object] = lambda: None,
    ) -> None:
        """Args: on_failure: called, in another thread, when a pipe ends too early."""
        self._on_failure = on_failure
        self._request = request
        self._host = host
        self._storage = storage
        self._host_dir = host_dir
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: DownloadFailed | None = None

    @property
    def failure(self) -> DownloadFailed | None:
        """Why a pipe ended too early, if one did: the job then saw only a part of its data."""
        return self._failure

    def start(self) -> None:
        """Look up what there is to feed, and begin; the first FIFOs are there on return.

        Raises:
            DownloadFailed: a channel has no objects, or a FIFO cannot be made.
        """
        for channel in self._request.channels:
            if channel.mode != "Pipe" or self._host not in list_hosts(self._request, channel):
                continue
            self._threads.append(
                threading.Thread(
                    target=self._feed,
                    args=(channel, self._make_epochs(channel)),
                    name=f"pipe-{channel.name}",
                    daemon=True,
                )
            )
            with storing(f"the pipe of channel {channel.name!r}", self._host_dir):
                self._make_fifo(channel, 0)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Close the FIFOs and remove them."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident:
                thread.join()

    def _make_epochs(self, channel: ChannelSource) -> Callable[[int], Iterator[bytes]]:
        samples = list_samples(channel, self._storage)

        def content_of(epoch: int) -> Iterator[bytes]:
            share = take_share(samples, self._request, channel, self._host, epoch=epoch)
            return make_content(share, channel, self._storage)

        return content_of

    def _feed(self, channel: ChannelSource, content_of: Callable[[int], Iterator[bytes]]) -> None:
        epoch = 0
        try:
            while True:
                self._write(self._wait_for_reader(channel, epoch), content_of(epoch))
                self._make_fifo(channel, epoch + 1)
                self._remove_fifo(channel, epoch)
                epoch += 1
        except _Stopped:
            pass
        except DownloadFailed as failure:
            self._fail(failure)
        except OSError as error:
            self._fail(
                DownloadFailed(
                    f"the pipe of channel {channel.name!r} cannot be used: {error}",
                    fix="leave the FIFOs of /opt/ml/input/data to the platform: only read them",
                )
            )
        finally:
            for one in (epoch, epoch + 1):
                with suppress(OSError):
                    self._remove_fifo(channel, one)

    def _fail(self, failure: DownloadFailed) -> None:
        self._failure = failure
        self._on_failure()

    def _make_fifo(self, channel: ChannelSource, epoch: int) -> None:
        with open_folder(self._host_dir, DATA, make=True) as folder:
            name = _name(channel, epoch)
            with suppress(FileNotFoundError):  # of a server that was killed
                os.unlink(name, dir_fd=folder)
            os.mkfifo(name, 0o644, dir_fd=folder)

    def _remove_fifo(self, channel: ChannelSource, epoch: int) -> None:
        with suppress(FileNotFoundError), open_folder(self._host_dir, DATA) as folder:
            os.unlink(_name(channel, epoch), dir_fd=folder)

    def _wait_for_reader(self, channel: ChannelSource, epoch: int) -> int:
        """The writing end, once a process reads. A blocking open could not be cancelled."""
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                with open_folder(self._host_dir, DATA) as folder:
                    descriptor = os.open(_name(channel, epoch), _FIFO, dir_fd=folder)
            except OSError as error:
                # No process has opened it for reading yet.
                if error.errno != errno.ENXIO:
                    raise
                continue
            if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise OSError(errno.EINVAL, "no FIFO any more", _name(channel, epoch))
            return descriptor
        raise _Stopped

    def _write(self, descriptor: int, content: Iterable[bytes]) -> None:
        """Write until all is read, or the reader closes its end: both end the epoch."""
        ready = select.poll()
        ready.register(descriptor, select.POLLOUT)
        try:
            with suppress(OSError):  # a larger pipe is only quicker
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            for chunk in content:
                view = memoryview(chunk)
                while view:
                    if self._stopping.is_set():
                        raise _Stopped
                    if ready.poll(1000 * _LOOK_SECONDS):
                        with suppress(BlockingIOError):
                            view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            return
        finally:
            os.close(descriptor)


def _name(channel: ChannelSource, epoch: int) -> str:
    return f"{channel.name}_{epoch}"


Sample = tuple[S3Uri | bytes, ...]
"""What stays together when the order is shuffled: objects by their places, values themselves."""

_CHUNK_BYTES = 1 << 20
_IN_MEMORY_BYTES = 64 << 20  # a larger object waits on the disk until its length is known


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


def list_samples(channel: ChannelSource, storage: Storage) -> list[Sample]:
    """Everything a Pipe channel consists of.

    Raises:
        DownloadFailed: there is nothing, or the manifest cannot be read.
    """
    if channel.data_type == "AugmentedManifestFile":
        return read_augmented_manifest(channel.uri, channel.attribute_names, storage)
    return [(found.uri,) for found in list_objects(channel, storage)]


def make_content(
    samples: Sequence[Sample], channel: ChannelSource, storage: Storage
) -> Iterator[bytes]:
    """The bytes of samples, one after the other, each object or value a record if so asked.

    Raises:
        DownloadFailed: an object has vanished, or is not what the channel says.
    """
    for sample in samples:
        for part in sample:
            if isinstance(part, bytes):
                yield from _make_part(io.BytesIO(part), len(part), channel)
            else:
                yield from _read_object(part, channel, storage)


def _read_object(uri: S3Uri, channel: ChannelSource, storage: Storage) -> Iterator[bytes]:
    with storage.open(uri) as content:
        if channel.compression == "None":
            yield from _make_part(content, content.size_bytes, channel)
            return
        try:
            yield from _decompress(content, channel)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DownloadFailed(
                f"{uri} is not a whole gzip file: {error}",
                fix="compress it with gzip, or set CompressionType None",
            ) from error


def _decompress(content: _Readable, channel: ChannelSource) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=content) as plain:  # type: ignore[call-overload]  # it only reads
        if channel.record_wrapper == "None":
            yield from _chunks(plain)
            return
        # A record begins with its length, which is known only at the end.
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as whole:
            for chunk in _chunks(plain):
                whole.write(chunk)
            size_bytes = whole.tell()
            whole.seek(0)
            yield from _make_part(whole, size_bytes, channel)


def _make_part(content: _Readable, size_bytes: int, channel: ChannelSource) -> Iterator[bytes]:
    chunks = _chunks(content)
    return make_record(chunks, size_bytes) if channel.record_wrapper == "RecordIO" else chunks


def _chunks(content: _Readable) -> Iterator[bytes]:
    while chunk := content.read(_CHUNK_BYTES):
        yield chunk


# MXNet's RecordIO: a magic number, flag and length, the content, padded to four bytes.
_MAGIC = 0xCED7230A
_LONGEST_PART = (1 << 29) - 4
"""A length has 29 bits; the flag above it marks the parts of a longer record."""
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


def make_record(chunks: Iterable[bytes], size_bytes: int) -> Iterator[bytes]:
    """One record of a known size, as it is read.

    Raises:
        ValueError: there were more or fewer bytes.
    """
    content = _Exactly(chunks)
    left = size_bytes
    flags = _flags(size_bytes)
    for flag in flags:
        length = min(left, _LONGEST_PART)
        yield struct.pack("<II", _MAGIC, flag << 29 | length)
        yield from content.take(length)
        yield bytes(-length % 4)
        left -= length
    content.require_end()


def _flags(size_bytes: int) -> list[int]:
    parts = max(1, -(-size_bytes // _LONGEST_PART))
    return [_WHOLE] if parts == 1 else [_FIRST, *[_MIDDLE] * (parts - 2), _LAST]


class _Exactly:
    """Chunks, handed out in other lengths than they came."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def take(self, length: int) -> Iterator[bytes]:
        while length:
            chunk = self._rest or next(self._chunks, b"")
            if not chunk:
                raise ValueError(f"{length} bytes are missing")
            yield chunk[:length]
            self._rest = chunk[length:]
            length -= min(length, len(chunk))

    def require_end(self) -> None:
        if self._rest or next(self._chunks, b""):
            raise ValueError("there are more bytes than expected")
