"""The checksums that S3 clients send and compare: CRC32, CRC32C, CRC64NVME, SHA-1, SHA-256."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import crc32c

from stoker.platform.s3.faults import S3Fault

HEADER = "x-amz-checksum-"
Buffer = bytes | bytearray | memoryview


def _crc64nvme(data: Buffer, before: int = 0) -> int:
    # Loaded when first asked for: 12 MB, and most clients use another checksum.
    try:
        from awscrt.checksums import crc64nvme
    except ImportError as error:
        text = "CRC64NVME needs a package on the server: pip install awscrt"
        raise S3Fault("NotImplemented", text) from error
    value: int = crc64nvme(data, before)
    return value


# Width and polynomial, lowest power first.
_CRCS: Mapping[str, tuple[Callable[..., int], int, int]] = {
    "crc32": (zlib.crc32, 32, 0xEDB88320),
    "crc32c": (crc32c.crc32c, 32, 0x82F63B78),
    "crc64nvme": (_crc64nvme, 64, 0x9A6C9329AC4BC9B5),
}
ALGORITHMS = (*_CRCS, "sha1", "sha256")


class Checksum(Protocol):
    """A checksum that is being computed."""

    def update(self, data: Buffer, /) -> None: ...
    def digest(self) -> bytes: ...


class _Crc:
    def __init__(self, algorithm: str) -> None:
        self._compute, width, _ = _CRCS[algorithm]
        self._size_bytes = width // 8
        self._value = 0

    def update(self, data: Buffer) -> None:
        self._value = self._compute(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size_bytes, "big")


def make_checksum(algorithm: str) -> Checksum:
    """A checksum of nothing yet."""
    if algorithm in _CRCS:
        return _Crc(algorithm)
    return hashlib.new(algorithm, usedforsecurity=False)


def is_valid(algorithm: str, value: str) -> bool:
    """Whether a text can be a value of this algorithm."""
    try:
        size_bytes = len(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False
    return size_bytes == len(make_checksum(algorithm).digest())


def combine_parts(algorithm: str, parts: Sequence[tuple[int, str]]) -> str:
    """The checksum of an object from the sizes and checksums of its parts; CRCs only."""
    _, width, polynomial = _CRCS[algorithm]
    value = 0
    for size_bytes, text in parts:
        part = int.from_bytes(base64.b64decode(text), "big")
        # A CRC is a polynomial: to append n bits is to multiply what was before by x^n.
        power = _power_of_x(8 * size_bytes, width, polynomial)
        value = _multiply(value, power, width, polynomial) ^ part
    return base64.b64encode(value.to_bytes(width // 8, "big")).decode()


def combine_digests(algorithm: str, parts: Sequence[str]) -> str:
    """The checksum of the parts' checksums, with their number."""
    checksum = make_checksum(algorithm)
    for text in parts:
        checksum.update(base64.b64decode(text))
    return f"{base64.b64encode(checksum.digest()).decode()}-{len(parts)}"


def _multiply(a: int, b: int, width: int, polynomial: int) -> int:
    """Of two polynomials whose highest bit is the power 0, modulo a third."""
    product = 0
    for bit in range(width - 1, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (polynomial if b & 1 else 0)
    return product


def _power_of_x(exponent: int, width: int, polynomial: int) -> int:
    result, square = 1 << (width - 1), 1 << (width - 2)
    while exponent:
        if exponent & 1:
            result = _multiply(result, square, width, polynomial)
        square = _multiply(square, square, width, polynomial)
        exponent >>= 1
    return result
