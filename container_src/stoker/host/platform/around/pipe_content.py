"""The bytes of one epoch of a Pipe channel."""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Protocol

from stoker.host.platform.around.failures import DownloadFailed
from stoker.host.platform.around.manifests import read_augmented_manifest
from stoker.host.platform.around.objects import list_objects
from stoker.host.platform.around.recordio import make_record
from stoker.host.platform.around.s3_uri import S3Uri
from stoker.host.platform.around.storage import Storage
from stoker.host.platform.request import ChannelSource

Sample = tuple[S3Uri | bytes, ...]
"""What stays together when the order is shuffled: objects by their places, values themselves."""

_CHUNK_BYTES = 1 << 20
_IN_MEMORY_BYTES = 64 << 20


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
