"""The records of TensorBoard's event files, and protobuf fields in them, encoded by hand.

A record is a length, its checksum, a message and its checksum. smdebug's files are of the same
form, so metrics and saved tensors are both written with these functions.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

_LENGTH = Struct("<Q")
_CHECKSUM = Struct("<I")
# TFRecord's constant: the checksum is rotated by 15 bits and this is added.
_MASK_DELTA = 0xA282EAD8
_LOW_32_BITS = 0xFFFFFFFF


def make_record(message: bytes) -> bytes:
    """Frames one message.

    Example:
        >>> len(make_record(b"event"))
        21
    """
    return b"".join((make_header(len(message)), message, masked_checksum(message)))


def make_header(size_bytes: int) -> bytes:
    """What comes before a message of this size: the size, and its checksum."""
    length = _LENGTH.pack(size_bytes)
    return length + masked_checksum(length)


HEADER_BYTES = 12  # eight of the length, four of its checksum


def masked_checksum(data: bytes | memoryview) -> bytes:
    """Masked, since the checksum of data that holds its own checksum is a weak one."""
    crc = crc32c(data)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + _MASK_DELTA) & _LOW_32_BITS)


def field(key: bytes, content: bytes) -> bytes:
    """A protobuf field that has a length."""
    return key + varint(len(content)) + content


def varint(number: int) -> bytes:
    """A whole number that is not negative, seven bits a byte."""
    if number < 0x80:
        return number.to_bytes(1)
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
