"""Reading one record: where in it the tensor is, after checks that it is the one expected."""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.debugging.tensors.encoding import DTYPE_CODES, FOOTER
from stoker.storage.event_records import HEADER_BYTES, make_header, masked_checksum

_DTYPES = {code: dtype for dtype, code in DTYPE_CODES.items()}

# Numbers of fields, each in its own message.
_SUMMARY = 5
_VALUE = 1
_TAG, _TENSOR = 1, 8
_DTYPE, _SHAPE, _CONTENT, _TEXT = 1, 2, 4, 8
_DIMENSION, _SIZE = 2, 1
_FIXED_BYTES = {1: 8, 5: 4}
"""Wire type → size of its values. Groups (3 and 4) are not in use."""


class Damaged(Exception):
    """What is wrong with a record."""


class Fields(NamedTuple):
    """A tensor's message, taken apart."""

    dtype_code: int
    shape: tuple[int, ...]
    content: memoryview
    texts: list[memoryview]


def read_record(file: memoryview, start: int, length: int, name: str) -> Fields:
    """Takes apart the record that the index says is there.

    The content itself has no checksum in this format; that it has the right size is checked.

    Raises:
        Damaged: it is not there, not whole, or not of this tensor.
    """
    record = file[start : start + length]
    if start < 0 or len(record) != length or length < HEADER_BYTES + len(FOOTER):
        raise Damaged(f"it ends at byte {len(file)}, before the {length} bytes at {start}")
    event_bytes = length - HEADER_BYTES - len(FOOTER)
    if record[:HEADER_BYTES] != make_header(event_bytes):
        raise Damaged(f"no record of {length} bytes begins at byte {start}")
    event = record[HEADER_BYTES:-4]
    # smdebug's constant, or the true checksum as TensorFlow writes it.
    if record[-4:] != FOOTER and record[-4:] != masked_checksum(event):
        raise Damaged(f"the record at byte {start} has a wrong end")
    try:
        tag, tensor = _find_tensor(event)
        if tag != name.encode("utf-8", "replace"):
            raise Damaged(f"the record at byte {start} is of another tensor")
        return _tensor_fields(tensor)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the message at byte {start} makes no sense ({error})") from None


def to_array(fields: Fields) -> NDArray[Any]:
    """The tensor itself; numbers stay where they are, in the memory of the file.

    Raises:
        Damaged: size and shape do not agree, or the type is unknown.
    """
    if fields.dtype_code == 0:
        return _to_texts(fields)
    dtype = to_dtype(fields)
    size = 1
    for dimension in fields.shape:
        size *= dimension
    if len(fields.content) != size * dtype.itemsize:
        raise Damaged(f"{len(fields.content)} bytes do not fit {dtype} of shape {fields.shape}")
    try:
        return np.frombuffer(fields.content, dtype).reshape(fields.shape)
    except ValueError as error:
        raise Damaged(f"its shape makes no sense ({error})") from None


def to_dtype(fields: Fields) -> np.dtype[Any]:
    """The type of its numbers; that of texts has no length here.

    Raises:
        Damaged: it is unknown.
    """
    dtype = _DTYPES.get(fields.dtype_code) if fields.dtype_code else np.dtype(np.str_)
    if dtype is None:
        raise Damaged(f"it has a type of number that is not known ({fields.dtype_code})")
    return dtype


def _to_texts(fields: Fields) -> NDArray[np.str_]:
    if fields.content or fields.shape != (len(fields.texts),):
        raise Damaged(f"{len(fields.texts)} texts do not fit a tensor of shape {fields.shape}")
    return np.array([bytes(text).decode("utf-8", "replace") for text in fields.texts], np.str_)


def _find_tensor(event: memoryview) -> tuple[memoryview, memoryview]:
    value = _one(_one(event, _SUMMARY), _VALUE)
    found = dict(_fields(value))
    return found[_TAG], found[_TENSOR]


def _tensor_fields(tensor: memoryview) -> Fields:
    dtype_code, content = 0, memoryview(b"")
    shape: tuple[int, ...] = ()
    texts: list[memoryview] = []
    for number, value in _fields(tensor):
        if number == _DTYPE:
            dtype_code = index(value)
        elif number == _SHAPE:
            shape = _to_shape(bytes(value))
        elif number == _CONTENT:
            content = memoryview(value)
        elif number == _TEXT:
            texts.append(memoryview(value))
    return Fields(dtype_code, shape, content, texts)


@lru_cache(maxsize=16384)  # the same at every step
def _to_shape(message: bytes) -> tuple[int, ...]:
    fields = _fields(memoryview(message))
    return tuple(_size(dimension) for number, dimension in fields if number == _DIMENSION)


def _size(dimension: memoryview) -> int:
    return index(dict(_fields(dimension)).get(_SIZE, 0))


def _one(message: memoryview, wanted: int) -> memoryview:
    found: memoryview = dict(_fields(message))[wanted]
    return found


def _fields(message: memoryview) -> list[tuple[int, Any]]:
    """Number and value of each field of a protobuf message: a number, or bytes of some length.

    The caller says which of them a value has to be: a damaged key may change its type.
    """
    found: list[tuple[int, Any]] = []
    at, end = 0, len(message)
    while at < end:
        key, at = (message[at], at + 1) if message[at] < 0x80 else _varint(message, at)
        kind = key & 7
        if kind == 2:
            size, at = (message[at], at + 1) if message[at] < 0x80 else _varint(message, at)
            found.append((key >> 3, message[at : at + size]))
            at += size
        elif kind == 0:
            value, at = _varint(message, at)
            found.append((key >> 3, value))
        else:
            found.append((key >> 3, message[at : at + _FIXED_BYTES[kind]]))
            at += _FIXED_BYTES[kind]
    if at > end:
        raise ValueError("a field is longer than its message")
    return found


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    byte = message[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        # Ten bytes of seven bits hold 64 bits: more of them is damage, and would never end in
        # zeros.
        if shift > 70:
            raise ValueError("a number has more than ten bytes")
    return value, at + 1
