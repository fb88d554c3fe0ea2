"""smdebug's records of tensors, encoded by hand, byte for byte as smdebug writes them.

A record is `u64 length | u32 checksum of it | Event | u32 constant`. The Event is a protobuf
message that holds one tensor; its bytes are the largest part, and they are in one piece near the
end. So a record is some bytes before them, the array's own memory, and some bytes after them.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.storage.event_records import field, make_header, masked_checksum, varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stoker.debugging.step_tensors import Mode

MODE_CODES: dict[Mode, int] = {"TRAIN": 1, "EVAL": 2, "PREDICT": 3, "GLOBAL": 4}

# `DataType` of TensorFlow's types.proto.
DTYPE_CODES: dict[np.dtype[Any], int] = {
    np.dtype(np.float16): 19,
    np.dtype(np.float32): 1,
    np.dtype(np.float64): 2,
    np.dtype(np.int8): 6,
    np.dtype(np.int16): 5,
    np.dtype(np.int32): 3,
    np.dtype(np.int64): 9,
    np.dtype(np.uint8): 4,
    np.dtype(np.uint16): 17,
    np.dtype(np.uint32): 22,
    np.dtype(np.uint64): 23,
    np.dtype(np.bool_): 10,
    np.dtype(np.complex64): 8,
    np.dtype(np.complex128): 18,
}

_DOUBLE = Struct("<d")

# A field's key is its number << 3 | its wire type (0 varint, 1 eight bytes, 2 length).
_WALL_TIME = b"\x09"
_STEP = b"\x10"
_SUMMARY = b"\x2a"
_VALUE = b"\x0a"
_TAG = b"\x0a"
_TENSOR = b"\x42"
_METADATA = b"\x4a"
_PLUGIN = b"\x0a"
_DTYPE = b"\x08"
_SHAPE = b"\x12"
_DIMENSION = b"\x12"
_CONTENT = b"\x22"
_TEXT = b"\x42"


FOOTER = masked_checksum(b"0x12345678")
"""Where TensorFlow has the checksum of the message, smdebug has that of this text."""


class StepEncoder:
    """Makes the records of one step; what they have in common is encoded once."""

    def __init__(self, *, step: int, mode: Mode, mode_step: int, wall_time: float) -> None:
        time = _DOUBLE.pack(wall_time)
        self._stamp = _WALL_TIME + time if any(time) else b""
        if step:
            self._stamp += _STEP + varint(step)
        plugins = _plugin(b"mode_step", mode_step) + _plugin(b"mode", MODE_CODES[mode])
        self._metadata = field(_METADATA, plugins)
        self.tail = self._metadata + FOOTER
        """What follows the content of a tensor, to the end of its record."""

    def head(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
        """What comes before the content of an array: `head + content + tail` is its record."""
        length, rest = _framed(name, dtype, shape, len(self._stamp), len(self._metadata))
        return length + self._stamp + rest

    def text_record(self, name: str, texts: NDArray[np.str_]) -> bytes:
        """The whole record of a one-dimensional array of texts; such have no dtype."""
        tag = name.encode("utf-8", "replace")
        strings = b"".join(field(_TEXT, str(t).encode("utf-8", "replace")) for t in texts)
        value = field(_TAG, tag) + field(_TENSOR, _shape(tag, texts.shape) + strings)
        length, rest = _frame(value, 0, len(self._stamp), len(self._metadata))
        return length + self._stamp + rest + self.tail


@lru_cache(maxsize=16384)  # the same at every step
def _framed(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], stamp_bytes: int, metadata_bytes: int
) -> tuple[bytes, bytes]:
    return _frame(*_value_head(name, dtype, shape), stamp_bytes, metadata_bytes)


def _frame(
    value: bytes, content_bytes: int, stamp_bytes: int, metadata_bytes: int
) -> tuple[bytes, bytes]:
    """What a record has before the stamp of its step, and between that and its content."""
    # Sizes come before what they measure, so all of them follow from the size of the content: the
    # content itself is never copied.
    value_bytes = len(value) + content_bytes + metadata_bytes
    summary = _VALUE + varint(value_bytes)
    lead = _SUMMARY + varint(len(summary) + value_bytes) + summary
    return make_header(stamp_bytes + len(lead) + value_bytes), lead + value


def _value_head(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[bytes, int]:
    """What a Value has before the content of its tensor, and the size of that content."""
    tag = name.encode("utf-8", "replace")
    content_bytes = dtype.itemsize
    for size in shape:
        content_bytes *= size
    tensor = _DTYPE + varint(DTYPE_CODES[dtype]) + _shape(tag, shape)
    # protobuf leaves out what is empty.
    if content_bytes:
        tensor += _CONTENT + varint(content_bytes)
    value = field(_TAG, tag) + _TENSOR + varint(len(tensor) + content_bytes) + tensor
    return value, content_bytes


def _plugin(name: bytes, number: int) -> bytes:
    return field(_PLUGIN, field(b"\x0a", name) + field(b"\x12", b"%d" % number))


def _shape(tag: bytes, shape: tuple[int, ...]) -> bytes:
    return field(_SHAPE, b"".join(_dimension(tag, size) for size in shape))


def _dimension(tag: bytes, size: int) -> bytes:
    length = b"\x08" + varint(size) if size else b""  # protobuf leaves zeros out
    return field(_DIMENSION, length + field(b"\x12", b"%b_%d" % (tag, size)))
