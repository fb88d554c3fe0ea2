"""Byte for byte what protobuf and tensorboard's own record writer make."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from stoker.metrics import events
from stoker.metrics.histogram import make_histogram
from stoker.storage.event_records import make_record

STEPS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.floats(allow_nan=False)
TAGS = st.text()
VALUES = st.floats(width=32)
MANY = settings(max_examples=300, deadline=None)


@MANY
@given(TIMES, STEPS, TAGS, VALUES)
def test_a_scalar_is_encoded_as_protobuf_does(wall_time, step, tag, value):
    made = events.make_scalar(wall_time, step, tag.encode(), value)
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    stock = Event(wall_time=wall_time, step=step, summary=summary)
    assert made == stock.SerializeToString()


@pytest.mark.parametrize(("value", "stored"), [(1e39, "inf"), (-1e300, "-inf"), (1e-60, "0.0")])
def test_what_32_bits_cannot_hold_becomes_what_a_cast_makes_of_it(value, stored):
    event = Event.FromString(events.make_scalar(1.0, 1, b"t", value))
    assert str(event.summary.value[0].simple_value) == stored


@settings(max_examples=60, deadline=None)
@given(TIMES, STEPS, TAGS, st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_a_histogram_is_encoded_as_protobuf_does(wall_time, step, tag, values):
    histogram = make_histogram(np.array(values, dtype=np.float32))
    proto = HistogramProto(
        min=histogram.minimum,
        max=histogram.maximum,
        num=histogram.size,
        sum=histogram.total,
        sum_squares=histogram.total_of_squares,
        bucket_limit=histogram.limits.tolist(),
        bucket=histogram.counts.tolist(),
    )
    summary = Summary(value=[Summary.Value(tag=tag, histo=proto)])
    stock = Event(wall_time=wall_time, step=step, summary=summary)
    made = events.make_histogram(wall_time, step, tag.encode(), histogram)
    assert made == stock.SerializeToString()


@MANY
@given(TIMES, STEPS)
def test_the_events_around_them_are_encoded_as_protobuf_does(wall_time, step):
    version = Event(wall_time=wall_time, file_version="brain.Event:2")
    assert events.make_file_version(wall_time) == version.SerializeToString()
    log = SessionLog(status=SessionLog.START)
    start = Event(wall_time=wall_time, step=step, session_log=log)
    assert events.make_session_start(wall_time, step) == start.SerializeToString()


@MANY
@given(st.binary(max_size=300))
def test_a_record_is_framed_as_tensorboard_does(message):
    stock = io.BytesIO()
    RecordWriter(stock).write(message)
    assert make_record(message) == stock.getvalue()
    assert struct.unpack("<Q", make_record(message)[:8]) == (len(message),)
