"""TensorBoard's `Event` messages, encoded by hand, byte for byte as protobuf encodes them.

Only the kinds that a training loop writes by the thousand; the rare ones come as protobuf
messages from torch's own writer. Field numbers are those of event.proto and summary.proto.
"""

from __future__ import annotations

from struct import Struct

from stoker.storage.event_records import field, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.metrics.histogram import Histogram

_DOUBLE = Struct("<d")
_SCALAR = Struct("<f")
_NO_BITS = bytes(8)
_64_BITS = (1 << 64) - 1

# A field's key is its number << 3 | its wire type (0 varint, 1 eight bytes, 2 length, 5 four).
_WALL_TIME = b"\x09"
_STEP = b"\x10"
_FILE_VERSION = b"\x1a"
_SUMMARY = b"\x2a"
_SESSION_LOG = b"\x3a"
_VALUE = b"\x0a"
_TAG = b"\x0a"
_SIMPLE_VALUE = b"\x15"
_HISTO = b"\x2a"
_SESSION_START = b"\x08\x01"
_HISTOGRAM_NUMBERS = (b"\x09", b"\x11", b"\x19", b"\x21", b"\x29")
_BUCKET_LIMITS = b"\x32"
_BUCKETS = b"\x3a"


def make_file_version(wall_time: float) -> bytes:
    """The event every file begins with."""
    return _stamp(wall_time, 0) + field(_FILE_VERSION, b"brain.Event:2")


def make_session_start(wall_time: float, step: int) -> bytes:
    """Tells readers that the run continues at `step`: later steps of earlier files are void."""
    return _stamp(wall_time, step) + field(_SESSION_LOG, _SESSION_START)


def make_scalar(wall_time: float, step: int, tag: bytes, value: float) -> bytes:
    """One point of a curve; what a 32-bit float cannot hold becomes an infinity."""
    return _event(wall_time, step, tag, _SIMPLE_VALUE + _as_float32(value))


def make_histogram(wall_time: float, step: int, tag: bytes, histogram: Histogram) -> bytes:
    """One histogram."""
    numbers = (
        histogram.minimum,
        histogram.maximum,
        float(histogram.size),
        histogram.total,
        histogram.total_of_squares,
    )
    content = b"".join(map(_number, _HISTOGRAM_NUMBERS, numbers))
    content += field(_BUCKET_LIMITS, histogram.limits.astype("<f8").tobytes())
    content += field(_BUCKETS, histogram.counts.astype("<f8").tobytes())
    return _event(wall_time, step, tag, field(_HISTO, content))


def _event(wall_time: float, step: int, tag: bytes, content: bytes) -> bytes:
    value = (field(_TAG, tag) if tag else b"") + content
    return _stamp(wall_time, step) + field(_SUMMARY, field(_VALUE, value))


def _stamp(wall_time: float, step: int) -> bytes:
    time = _number(_WALL_TIME, wall_time)
    # A negative step takes all ten bytes, as its two's complement of 64 bits.
    return time + _STEP + varint(step & _64_BITS) if step else time


def _number(key: bytes, value: float) -> bytes:
    data = _DOUBLE.pack(value)
    return key + data if data != _NO_BITS else b""  # protobuf leaves zeros out, but not -0.0


def _as_float32(value: float) -> bytes:
    try:
        return _SCALAR.pack(value)
    except OverflowError:
        return _SCALAR.pack(float("inf") if value > 0 else float("-inf"))
