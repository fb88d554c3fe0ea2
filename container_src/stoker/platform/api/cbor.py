"""CBOR (RFC 8949), as far as AWS's RPC v2 protocol uses it.

botocore can only write requests and read answers; a server needs the reverse. Times are tag 1,
seconds since the epoch, in both directions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_DEPTH = 64  # far below Python's recursion limit, far above what models nest
_EPOCH_TAG = 1
_INDEFINITE = 31
_BREAK = 0xFF
# The low five bits of a head (RFC 8949): from 24 to 27 the number is in the 1 to 8 bytes behind,
# and 31 says that the end is marked.
_SIZES = {24: 1, 25: 2, 26: 4, 27: 8}
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_SIMPLE = {20: False, 21: True, 22: None, 23: None}


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds since the epoch, to be written as a time and not as a number."""

    seconds: float


def encode(value: object) -> bytes:
    """One value.

    Raises:
        TypeError: the value has no form in CBOR.
    """
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case Time():
            return _head(6, _EPOCH_TAG) + encode(value.seconds)
        case bytes():
            return _head(2, len(value)) + value
        case str():
            raw = value.encode(errors="replace")
            return _head(3, len(raw)) + raw
        case list() | tuple():
            return _head(4, len(value)) + b"".join(map(encode, value))
        case Mapping():
            pairs = (encode(key) + encode(item) for key, item in value.items())
            return _head(5, len(value)) + b"".join(pairs)
    raise TypeError(f"{type(value).__name__} has no form in CBOR")


def decode(raw: bytes) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a message.

    Raises:
        ValueError: the bytes are not CBOR, end too early, or continue behind the value.
    """
    reader = _Reader(raw)
    try:
        value = reader.read(0)
    except (IndexError, struct.error, TypeError, KeyError) as error:
        raise ValueError(f"not CBOR at byte {reader.place}") from error
    if reader.place != len(raw):
        raise ValueError(f"bytes behind the value, from {reader.place} on")
    return value


def _head(major: int, number: int) -> bytes:
    first = major << 5
    if number < 24:
        return bytes([first | number])
    for code, size in _SIZES.items():
        if number < 1 << (8 * size):
            return bytes([first | code]) + number.to_bytes(size)
    raise TypeError(f"{number} is too large for CBOR")


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.place = 0

    def read(self, depth: int) -> Any:  # noqa: ANN401 - any value
        if depth > _MOST_DEPTH:
            raise ValueError(f"nested deeper than {_MOST_DEPTH}")
        major, info = divmod(self._take(1)[0], 32)
        if major == 7:
            return self._simple(info)
        if info == _INDEFINITE:
            return self._indefinite(major, depth)
        number = info if info < 24 else int.from_bytes(self._take(_SIZES[info]))
        if major in (2, 3):
            return _text(major, self._take(number))
        if major == 4:
            return [self.read(depth + 1) for _ in range(number)]
        if major == 5:
            return {self.read(depth + 1): self.read(depth + 1) for _ in range(number)}
        if major == 6:  # a tag; those AWS uses mark times, whose numbers are read as such
            return self.read(depth + 1)
        return number if major == 0 else -1 - number

    def _simple(self, info: int) -> Any:  # noqa: ANN401 - bool, None or float
        if info in _FLOATS:
            return struct.unpack(_FLOATS[info], self._take(_SIZES[info]))[0]
        return _SIMPLE[info]

    def _indefinite(self, major: int, depth: int) -> Any:  # noqa: ANN401 - any value
        items = []
        while self._raw[self.place] != _BREAK:
            items.append(self.read(depth + 1))
        self.place += 1
        if major == 4:
            return items
        if major == 5:
            return dict(zip(items[::2], items[1::2], strict=True))
        return (b"" if major == 2 else "").join(items)

    def _take(self, count: int) -> bytes:
        part = self._raw[self.place : self.place + count]
        if len(part) < count:
            raise ValueError("the message ends within a value")
        self.place += count
        return part


def _text(major: int, raw: bytes) -> bytes | str:
    return raw if major == 2 else raw.decode()
