"""The RecordIO framing that a pipe may wrap around each object."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

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
