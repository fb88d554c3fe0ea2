"""Receiving a body: decoded, hashed while it is written, and compared with what was promised."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import hmac
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from stoker.platform.model.root import SPARE_BYTES
from stoker.platform.model.signature import sign
from stoker.platform.s3.call import Call
from stoker.platform.s3.checksums import ALGORITHMS, HEADER, Checksum, is_valid, make_checksum
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import parse_chunk_size, parse_digits

_STREAMING = "STREAMING-"
_EMPTY_HASH = hashlib.sha256(b"").hexdigest()
_MOST_LINE_BYTES = 16 * 1024
# S3's own limit for one object: 5 TiB.
_MOST_OBJECT_BYTES = 5 * 2**40
_LONG_HASH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What is known about bytes that were written."""

    size_bytes: int
    md5: str
    checksums: Mapping[str, str]


def receive(call: Call, file: BinaryIO, *, algorithm: str = "") -> Received:
    """Write the body of a request into a file.

    Args:
        call: the request.
        file: where to.
        algorithm: of a checksum that is wanted even if the request brings none.

    Raises:
        S3Fault: a checksum is not that of the bytes, the disk is full, or bytes are missing.
    """
    _require_room(call)
    trailers: dict[str, str] = {}
    promised = _read_promises(call)
    named = {call.header("x-amz-sdk-checksum-algorithm").lower(), algorithm}
    trailing = call.header("x-amz-trailer").lower().split(",")
    named |= {name.strip().removeprefix(HEADER) for name in trailing}
    checksums = {name: make_checksum(name) for name in {*promised, *named} & {*ALGORITHMS}}
    stated = call.header("x-amz-content-sha256")
    hashes: dict[str, Checksum] = dict(checksums)
    if len(stated) == _LONG_HASH:
        # Once, where the checksum that the client asks for is the one that it has signed.
        hashes["body"] = checksums.get("sha256") or make_checksum("sha256")
    size_bytes, md5 = write_all(_decode(call, trailers), file, [*{*hashes.values()}])
    expected = call.header("x-amz-decoded-content-length")
    if expected and expected != str(size_bytes):
        raise S3Fault("IncompleteBody")
    if "body" in hashes and hashes["body"].digest().hex() != stated.lower():
        raise S3Fault("XAmzContentSHA256Mismatch")
    _require_md5(call, md5)
    computed = {n: base64.b64encode(sum_.digest()).decode() for n, sum_ in checksums.items()}
    for name, value in trailers.items():
        if name.startswith(HEADER):
            promised[name.removeprefix(HEADER)] = value
    for name, value in promised.items():
        if computed.get(name) != value:
            raise S3Fault("BadDigest", f"The {name} you specified did not match what we received.")
    return Received(size_bytes=size_bytes, md5=md5.hex(), checksums=computed)


def write_all(
    pieces: Iterable[memoryview | bytes], file: BinaryIO, hashes: Iterable[Checksum] = ()
) -> tuple[int, bytes]:
    """Write pieces and compute their MD5 meanwhile.

    Raises:
        S3Fault: InsufficientStorage: the disk is full.
    """
    md5 = hashlib.md5(usedforsecurity=False)
    size_bytes = 0
    for piece in pieces:
        size_bytes += len(piece)
        md5.update(piece)
        for each in hashes:
            each.update(piece)
        view = memoryview(piece)
        while view:
            try:
                view = view[file.write(view) :]
            except OSError as error:
                if is_full(error):
                    raise make_full(0, size_bytes) from error
                raise
    return size_bytes, md5.digest()


def is_full(error: OSError | sqlite3.Error) -> bool:
    """Whether the disk has no room, for a file or for a row of the index."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return error.sqlite_errorcode == sqlite3.SQLITE_FULL


def make_full(free_bytes: int, size_bytes: int | None = None) -> S3Fault:
    """The refusal of what the disk cannot hold."""
    needed = "" if size_bytes is None else f", and the object has {size_bytes:,}"
    return S3Fault(
        "InsufficientStorage",
        f"The disk of the platform's S3 is full: {free_bytes:,} bytes are free{needed}; "
        "free space on it, or use another --root.",
    )


def _require_room(call: Call) -> None:
    length = call.header("x-amz-decoded-content-length") or call.header("content-length")
    if not length:
        if call.header("transfer-encoding"):
            return
        raise S3Fault("MissingContentLength")
    size_bytes = parse_digits(length)
    if size_bytes is None:
        raise S3Fault("InvalidArgument", "The length of the body is not a number.")
    if size_bytes > _MOST_OBJECT_BYTES:
        raise S3Fault("EntityTooLarge")
    free_bytes = call.store.free_bytes()
    if size_bytes + SPARE_BYTES > free_bytes:
        raise make_full(free_bytes, size_bytes)


def _read_promises(call: Call) -> dict[str, str]:
    promised = {
        name: call.header(f"{HEADER}{name}") for name in ALGORITHMS if call.header(HEADER + name)
    }
    if len(promised) > 1:
        raise S3Fault("InvalidRequest", "Expecting a single x-amz-checksum- header.")
    for name, value in promised.items():
        if not is_valid(name, value):
            raise S3Fault("BadDigest", f"Value for {HEADER}{name} header is invalid.")
    return promised


def _require_md5(call: Call, md5: bytes) -> None:
    if "content-md5" not in call.request.headers:
        return
    try:
        given = base64.b64decode(call.header("content-md5"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise S3Fault("InvalidDigest") from error
    if len(given) != len(md5):
        raise S3Fault("InvalidDigest")
    if given != md5:
        raise S3Fault("BadDigest")


def _decode(call: Call, trailers: dict[str, str]) -> Iterator[memoryview]:
    pieces = call.request.read_body()
    if not call.header("x-amz-content-sha256").startswith(_STREAMING):
        return pieces
    return _decode_aws_chunks(_PieceReader(pieces), _ChunkSignatures(call), trailers)


def _decode_aws_chunks(
    reader: _PieceReader, signatures: _ChunkSignatures, trailers: dict[str, str]
) -> Iterator[memoryview]:
    """The content of a body that consists of chunks with sizes, and perhaps signatures."""
    while True:
        size, _, extension = reader.read_line().partition(b";")
        size_bytes = parse_chunk_size(size)
        digest = hashlib.sha256()
        for piece in reader.take(size_bytes):
            if signatures.are_required:
                digest.update(piece)
            yield piece
        signatures.require(extension, digest.hexdigest())
        if not size_bytes:
            break
        reader.read_line()
    while line := reader.read_line(at_end=True):
        name, _, value = line.decode("latin-1").partition(":")
        trailers[name.strip().lower()] = value.strip()
    for _ in reader.take_rest():
        pass


class _ChunkSignatures:
    def __init__(self, call: Call) -> None:
        stated = call.header("x-amz-content-sha256")
        self.are_required = "AWS4-HMAC" in stated and call.signature is not None
        self._call = call
        self._stamp = call.header("x-amz-date")
        self._before = call.signature.signature if call.signature else ""

    def require(self, extension: bytes, hashed: str) -> None:
        if not self.are_required or self._call.signature is None:
            return
        given = extension.decode("latin-1").strip().removeprefix("chunk-signature=")
        scope = self._call.signature.scope
        # Each signature is over the one before: no chunk can be left out or moved.
        text = (self._stamp, scope, self._before, _EMPTY_HASH, hashed)
        text_to_sign = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", *text])
        expected = sign(self._call.credentials, self._call.signature, text_to_sign)
        if not hmac.compare_digest(given.encode(), expected.encode()):
            raise S3Fault("SignatureDoesNotMatch", "The signature of a chunk does not match.")
        self._before = expected


class _PieceReader:
    """Lines and exact numbers of bytes out of pieces of any size."""

    def __init__(self, pieces: Iterator[memoryview]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def read_line(self, *, at_end: bool = False) -> bytes:
        line = bytearray()
        while not line.endswith(b"\r\n"):
            if not self._rest and not self._read_more():
                if at_end and not line:
                    return b""
                raise S3Fault("IncompleteBody")
            end = bytes(self._rest[:_MOST_LINE_BYTES]).find(b"\n") + 1 or len(self._rest)
            line += self._rest[:end]
            self._rest = self._rest[end:]
            if len(line) > _MOST_LINE_BYTES:
                raise S3Fault("IncompleteBody", "A line of the body is too long.")
        return bytes(line[:-2])

    def take(self, size_bytes: int) -> Iterator[memoryview]:
        while size_bytes:
            if not self._rest and not self._read_more():
                raise S3Fault("IncompleteBody")
            piece = self._rest[:size_bytes]
            self._rest = self._rest[len(piece) :]
            size_bytes -= len(piece)
            yield piece

    def take_rest(self) -> Iterator[memoryview]:
        while self._rest or self._read_more():
            yield self._rest
            self._rest = memoryview(b"")

    def _read_more(self) -> bool:
        self._rest = next(self._pieces, memoryview(b""))
        return bool(self._rest)
