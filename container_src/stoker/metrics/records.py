"""The record format of TensorBoard's event files: a length, the bytes, and a checksum of each."""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

_LENGTH = Struct("<Q")
_CHECKSUM = Struct("<I")
_MASK_DELTA = 0xA282EAD8
_LOW_32_BITS = 0xFFFFFFFF


def make_record(message: bytes) -> bytes:
    """Frames one message.

    Example:
        >>> len(make_record(b"event"))
        21
    """
    length = _LENGTH.pack(len(message))
    return b"".join((length, _checksum(length), message, _checksum(message)))


def _checksum(data: bytes) -> bytes:
    # Masked, since the checksum of data that holds its own checksum is a weak one.
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + _MASK_DELTA) & _LOW_32_BITS
    return _CHECKSUM.pack(masked)
