"""One file per folder, for all writers and readers."""

from __future__ import annotations

import math
import os
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.metrics.event_file import EventFile, EventStream
from tests.metrics.reading import accumulate, event_files, events_of, scalars

STEPS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(STEPS, st.text(), st.floats(width=32)), min_size=1, max_size=8))
def test_tensorboard_reads_back_every_scalar(tmp_path_factory, points):
    folder = tmp_path_factory.mktemp("run")
    file = EventFile(folder)
    for step, tag, value in points:
        file.stream.add_scalar((1.5, step, tag, value))
    file.close()
    read = [event for event in events_of(event_files(folder)[0]) if event.HasField("summary")]
    got = [(e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in read]
    for (step, tag, value), (step_read, tag_read, value_read) in zip(points, got, strict=True):
        assert (step, tag) == (step_read, tag_read)
        assert value == value_read or (math.isnan(value) and math.isnan(value_read))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.5])
@pytest.mark.parametrize("tag", ["a/b", "größe 学習", "x=y %", " ", "\U0001f525"])
def test_tensorboard_shows_odd_values_and_names(tmp_path, tag, value):
    with_close(tmp_path, [(2**62, tag, value)])
    ((step, read),) = scalars(tmp_path, tag)
    assert step == 2**62
    assert str(read) == str(value)


def with_close(folder, points):
    file = EventFile(folder)
    for step, tag, value in points:
        file.stream.add_scalar((1.0, step, tag, value))
    file.close()


def test_the_folder_is_there_at_once(tmp_path):
    """Scripts put files of their own into it; the thread makes the file only later."""
    for number in range(50):
        file = EventFile(tmp_path / str(number) / "run")
        (tmp_path / str(number) / "run/config.json").write_text("{}")
        file.close()


def test_a_name_that_is_not_unicode_is_kept_in_part(tmp_path):
    with_close(tmp_path, [(1, "bad\ud800name", 1.0)])
    assert accumulate(tmp_path).Tags()["scalars"] == ["bad?name"]


def test_steps_of_more_than_64_bits_are_left_out_and_told_once(tmp_path, caplog):
    with_close(tmp_path, [(2**63, "t", 1.0), (-(2**63) - 1, "t", 1.0), (7, "t", 2.0)])
    assert scalars(tmp_path, "t") == [(7, 2.0)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_writers_of_one_folder_share_its_file(tmp_path):
    first, second = EventFile(tmp_path), EventFile(f"{tmp_path}/")
    first.stream.add_scalar((1.0, 1, "t", 1.0))
    second.stream.add_scalar((1.0, 2, "t", 2.0))
    first.close()
    second.stream.add_scalar((1.0, 3, "t", 3.0))
    second.close()
    assert len(event_files(tmp_path)) == 1
    assert scalars(tmp_path, "t") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_run_is_there_before_its_first_event(tmp_path):
    file = EventFile(tmp_path / "a/b")
    file.flush()
    assert len(event_files(tmp_path / "a/b")) == 1
    file.close()


def test_points_reach_the_file_while_training_continues(tmp_path):
    file = EventFile(tmp_path)
    for step in range(3):
        file.stream.add_scalar((1.0, step, "t", 1.0))
        deadline = time.monotonic() + 120
        while not event_files(tmp_path) or len(events_of(event_files(tmp_path)[0])) < step + 2:
            assert time.monotonic() < deadline, "nothing came, though no flush was asked for"
            time.sleep(0.02)
    file.close()


def test_one_that_was_closed_continues_in_a_new_file(tmp_path):
    file = EventFile(tmp_path)
    file.stream.add_scalar((1.0, 1, "t", 1.0))
    file.close()
    file.close()
    file.stream.add_scalar((1.0, 2, "t", 2.0))
    file.close()
    assert len(event_files(tmp_path)) == 2
    assert scalars(tmp_path, "t") == [(1, 1.0), (2, 2.0)]


def test_nothing_is_lost_between_threads_and_heaps(tmp_path):
    file, count = EventFile(tmp_path), 20_000

    def write(tag):
        for step in range(count):
            file.stream.add_scalar((1.0, step, tag, step))

    threads = [threading.Thread(target=write, args=(tag,)) for tag in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    accumulator = accumulate(tmp_path)
    for tag in "abc":
        assert [event.step for event in accumulator.Scalars(tag)] == list(range(count))


def test_a_full_backlog_makes_the_sender_wait_instead_of_losing_points(tmp_path, monkeypatch):
    monkeypatch.setattr("stoker.metrics.backlog._MOST_ITEMS", 100)
    file = EventFile(tmp_path)
    for step in range(5_000):
        file.stream.add_scalar((1.0, step, "t", 0.0))
        assert len(file.stream._backlog._items) <= 101
    file.close()
    assert len(scalars(tmp_path, "t")) == 5_000


def test_large_messages_are_bounded_by_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr("stoker.metrics.backlog._MOST_BYTES", 1_000)
    file = EventFile(tmp_path)
    for _ in range(50):
        file.stream.add_message(bytes(600))
        assert len(file.stream._backlog._items) <= 2
    file.close()


def test_closes_and_flushes_of_several_threads_do_not_wait_for_each_other(tmp_path):
    stream = EventStream(str(tmp_path))

    def use(tag):
        for step in range(100):
            stream.add_scalar((1.0, step, tag, 1.0))
            stream.close() if step % 3 == 0 else stream.flush()

    threads = [threading.Thread(target=use, args=(tag,)) for tag in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.close()
    found = accumulate(tmp_path)
    for tag in "abc":
        assert {event.step for event in found.Scalars(tag)} == set(range(100))


def test_no_thread_and_no_descriptor_stays_after_a_close(tmp_path):
    for number in range(5):
        with_close(tmp_path / str(number), [(1, "t", 1.0)])
    for thread in threading.enumerate():
        if str(tmp_path) in thread.name:
            thread.join(60)
            assert not thread.is_alive()
    descriptors = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in descriptors if os.path.islink(link)]
    assert not [path for path in opened if str(tmp_path) in path]


def test_a_forked_child_writes_a_file_of_its_own(tmp_path):
    stream = EventStream(str(tmp_path))
    stream.add_scalar((1.0, 1, "parent", 1.0))
    stream.flush()
    stream.add_scalar((1.0, 2, "parent", 2.0))  # the parent's, still unwritten at the fork
    child = os.fork()
    if child == 0:
        try:
            stream.add_scalar((1.0, 1, "child", 1.0))
            stream.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    stream.close()
    tags = {
        file: [e.summary.value[0].tag for e in events_of(file)[1:]]
        for file in event_files(tmp_path)
    }
    assert sorted(tags.values()) == [["child"], ["parent", "parent"]]
