"""The line that says how far a transfer has come."""

from __future__ import annotations

import threading

import pytest

from stoker.bus.progress import Progress, show_size


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines():
    return []


def test_it_tells_bytes_rate_and_what_is_left(clock, lines):
    progress = Progress("upload of train", 2_000_000_000, show=lines.append, clock=clock)
    progress.add(1)  # at once: nothing is worth a line yet
    clock.now = 4.0
    progress.add(799_999_999)
    assert lines == ["upload of train: 800 MB of 2 GB, 200 MB/s, 6 s left"]


def test_the_rate_is_that_of_the_last_seconds(clock, lines):
    progress = Progress("x", 10_000, show=lines.append, clock=clock)
    clock.now = 1.0
    progress.add(5_000)  # from a cache
    for _ in range(30):
        clock.now += 1.0
        progress.add(100)
    assert lines[-1] == "x: 8 kB of 10 kB, 100 B/s, 20 s left"


def test_an_unknown_size_a_repetition_and_more_than_announced_do_no_harm(clock, lines):
    progress = Progress("x", 0, show=lines.append, clock=clock)
    for now, size_bytes in ((1.0, 500), (2.0, -500), (3.0, 900)):
        clock.now = now
        progress.add(size_bytes)
    assert lines == ["x: 500 B, 500 B/s", "x: 0 B, 0 B/s", "x: 900 B, 300 B/s"]
    short = Progress("y", 10, show=lines.append, clock=clock)
    clock.now = 4.0
    short.add(30)
    assert lines[-1] == "y: 30 B of 10 B, 30 B/s"


def test_threads_lose_no_bytes(clock, lines):
    progress = Progress("x", 0, show=lines.append, clock=clock)

    def work():
        for _ in range(10_000):
            progress.add(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.now = 1.0
    progress.add(2)
    assert lines == ["x: 40 kB, 40 kB/s"]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (999_600, "1 MB"), (1.34e6, "1.34 MB")],
)
def test_sizes_have_three_digits(size_bytes, text):
    assert show_size(size_bytes) == text
