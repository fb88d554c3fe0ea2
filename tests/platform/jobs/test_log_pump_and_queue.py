"""Small parts of a job's life: lines out of bytes, places in the queue."""

from __future__ import annotations

import random
import threading

from stoker.platform.data.log_streams import LogStreams, size_of
from stoker.platform.jobs.control import Slots
from stoker.platform.jobs.log_pump import LINE_BYTES, LineSplitter, LogPump
from stoker.platform.model.root import open_root


def split(chunks):
    splitter = LineSplitter()
    lines = []
    for chunk in chunks:
        lines += splitter.feed(chunk)
    return lines + splitter.end()


def test_lines_do_not_depend_on_how_the_bytes_come():
    """That is what lets a restarted server leave out the lines it finds stored."""
    content = b"one\n\ntwo\r\n\xff\xfe\n" + "é".encode() * LINE_BYTES + b"\nlast\r50%\r100%"
    whole = split([content])
    assert whole[:4] == ["one", "", "two", "��"]
    assert whole[-1] == "last\r50%\r100%"
    assert "".join(whole[4:-1]) == "é" * LINE_BYTES
    assert all(len(line.encode()) <= LINE_BYTES for line in whole)
    choice = random.Random(1)
    for _ in range(20):
        cuts = sorted(choice.choices(range(len(content)), k=50))
        chunks = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
        assert split(chunks) == whole


def test_a_log_of_control_characters_does_not_grow(tmp_path):
    streams = LogStreams(open_root(tmp_path))
    stream = streams.create("job", "algo-1")
    (line,) = split([b"\0" * 10_000 + b"\tend\x1b[0m\x07"])
    assert line == "?" * 10_000 + "\tend\x1b[0m?"
    streams.append("job", "algo-1", [(1, line)])
    assert size_of(stream) < 11_000


class Endless:
    """As an engine whose run writes 100,000 lines."""

    def read_log(self, name, start_byte):
        yield from (b"a line of a log that does not end\n" * 100 for _ in range(1000))


def test_a_log_is_bounded_and_says_where_it_is_cut(tmp_path):
    streams = LogStreams(open_root(tmp_path))
    stream = streams.create("job", "algo-1")
    run = {"name": "run", "job": "job", "host": "algo-1", "before": 0, "most_bytes": 100_000}
    for _ in range(2):  # the second time as after a restart of the server
        pump = LogPump(Endless(), streams, **run)
        pump.start()
        pump.join(60)
        assert pump.failure is None
        lines = [event.text for event in streams.read("job", "algo-1")]
        assert [line for line in lines if "the log is cut here" in line] == lines[-1:]
        assert size_of(stream) < 120_000


def test_places_are_given_in_order_and_kept_over_a_restart():
    slots = Slots(1)
    slots.adopt("ran before")
    wakes = {name: threading.Event() for name in ("first", "second", "third")}
    assert [slots.ask(name, wake) for name, wake in wakes.items()] == [False] * 3
    slots.leave("second")
    slots.leave("ran before")
    assert wakes["first"].is_set()
    assert slots.ask("first", wakes["first"])
    assert not slots.ask("third", wakes["third"])
    slots.leave("first")
    assert slots.ask("third", wakes["third"])
    assert not wakes["second"].is_set()
