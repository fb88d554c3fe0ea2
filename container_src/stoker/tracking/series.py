"""Metric series in sqlite: every point with its step and time, read whole or thinned out.

New points are rows; each full thousand becomes one block of packed numbers. A row costs sqlite
0.3 µs to read, so a million of them would take too long to draw; blocks are read in tens of
milliseconds. Both are changed in the caller's transaction.
"""

from __future__ import annotations

import math
import sqlite3
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SCHEMA = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    count INTEGER NOT NULL DEFAULT 0,
    finite INTEGER NOT NULL DEFAULT 0,
    low REAL,
    high REAL,
    mean REAL NOT NULL DEFAULT 0,
    squares REAL NOT NULL DEFAULT 0,
    last_step INTEGER,
    last_ms INTEGER,
    last_value REAL,
    UNIQUE (run, name)
) STRICT;
CREATE TABLE IF NOT EXISTS points (
    series INTEGER NOT NULL,
    number INTEGER NOT NULL,
    step INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (series, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blocks (
    series INTEGER NOT NULL,
    number INTEGER NOT NULL,
    peaks BLOB NOT NULL,
    steps BLOB NOT NULL,
    times BLOB NOT NULL,
    numbers BLOB NOT NULL,
    PRIMARY KEY (series, number)
) STRICT;
"""
_BLOCK_POINTS = 1000
_PEAK_POINTS = 100
"""Of so many points a block keeps first and last step, lowest and highest value. They come first
in the row: the long columns behind them are on pages that a thinned read does not touch."""

_PEAK = struct.Struct("<qqdd")
MOST_STEP = 2**63 - 1
MOST_SECONDS = 253_402_300_799.0
"""The end of the year 9999: no client can show a later time, and some send nanoseconds."""


class Point(NamedTuple):
    """One value of a metric."""

    step: int
    time_ms: int
    value: float


class Bucket(NamedTuple):
    """A stretch of a series: its first and last step, its lowest and highest value."""

    first_step: int
    last_step: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A series in a few numbers; those that are not finite count, and change nothing else."""

    name: str
    count: int
    low: float | None
    high: float | None
    mean: float | None
    deviation: float | None
    """Of the population; None where it is larger than any number."""

    last: Point
    """Of the highest step; of several, the latest."""


def append(connection: sqlite3.Connection, run: str, name: str, points: Sequence[Point]) -> None:
    """Add points to a series, in the order in which they came."""
    if not points:
        return
    connection.execute("INSERT OR IGNORE INTO series (run, name) VALUES (?, ?)", (run, name))
    key, count, *before = connection.execute(
        "SELECT id, count, finite, low, high, mean, squares, last_step, last_ms, last_value"
        " FROM series WHERE run = ? AND name = ?",
        (run, name),
    ).fetchone()
    connection.executemany(
        "INSERT INTO points VALUES (?, ?, ?, ?, ?)",
        [(key, number, *point) for number, point in enumerate(points, count)],
    )
    connection.execute(
        "UPDATE series SET count = ?, finite = ?, low = ?, high = ?, mean = ?, squares = ?,"
        " last_step = ?, last_ms = ?, last_value = ? WHERE id = ?",
        (count + len(points), *_summarise(before, points), key),
    )
    if (count + len(points)) // _BLOCK_POINTS > count // _BLOCK_POINTS:
        _pack_full_blocks(connection, key)


def _summarise(before: Sequence[float | None], points: Sequence[Point]) -> tuple[object, ...]:
    finite, low, high, mean, squares, last_step, last_ms, last_value = before
    values = [point.value for point in points if math.isfinite(point.value)]
    # NaN and infinity are seen as the last value only.
    if values:
        low = min(values) if low is None else min(low, *values)
        high = max(values) if high is None else max(high, *values)
        # Two parts' means and squared differences, joined (Chan et al.): no cancellation.
        own_mean = _mean(values)
        own_squares = _sum_squares(value - own_mean for value in values)
        old = finite or 0
        total = old + len(values)
        apart = own_mean - (mean or 0.0)
        # `apart` is infinite between the largest and the lowest number there is.
        mean = min(max(low, (mean or 0.0) + apart * (len(values) / total)), high)
        between = _sum_squares([apart]) * (old * len(values) / total) if old else 0.0
        squares = (squares or 0.0) + own_squares + between
        finite = total
    newest = max(points, key=lambda point: point[:2])
    # Of equal steps and times the later arrival counts; max() returns the first.
    newest = next(p for p in reversed(points) if p[:2] == newest[:2])
    if last_step is None or newest[:2] >= (last_step, last_ms):
        last_step, last_ms, last_value = newest
    return finite, low, high, mean, squares, last_step, last_ms, last_value


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # of numbers near the largest
        return math.fsum(value / len(values) for value in values)


def _sum_squares(values: Iterable[float]) -> float:
    """Infinity where it is larger than any number; `**` would raise OverflowError."""
    squares = [value * value for value in values]
    try:
        return math.fsum(squares)
    except OverflowError:
        return math.inf


def _pack_full_blocks(connection: sqlite3.Connection, key: int) -> None:
    rows = connection.execute(
        "SELECT number, step, time_ms, value FROM points WHERE series = ? ORDER BY number", (key,)
    ).fetchall()
    full = len(rows) - len(rows) % _BLOCK_POINTS
    for start in range(0, full, _BLOCK_POINTS):
        part = rows[start : start + _BLOCK_POINTS]
        steps = array("q", (step for _, step, _, _ in part))
        times = array("q", (time_ms for _, _, time_ms, _ in part))
        # sqlite keeps NaN as NULL.
        values = array("d", (math.nan if value is None else value for *_, value in part))
        peaks = b"".join(_PEAK.pack(*each) for each in _split(steps, values, _PEAK_POINTS))
        connection.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)",
            (key, part[0][0], peaks, steps.tobytes(), times.tobytes(), values.tobytes()),
        )
    connection.execute(
        "DELETE FROM points WHERE series = ? AND number < ?", (key, rows[0][0] + full)
    )


def read_points(connection: sqlite3.Connection, run: str, name: str) -> list[Point]:
    """A whole series, in the order in which its points came."""
    found: list[Point] = []
    for steps, times, values in _read_parts(connection, run, name):
        found += map(Point, steps, times, values)
    return found


def read_buckets(connection: sqlite3.Connection, run: str, name: str, most: int) -> list[Bucket]:
    """A series as at most so many stretches of equally many points.

    Every peak is kept: a stretch has its lowest and highest value. One without any number has
    NaN for both.
    """
    row = connection.execute(
        "SELECT id, count FROM series WHERE run = ? AND name = ?", (run, name)
    ).fetchone()
    if row is None:
        return []
    key, count = row
    if count > most * _PEAK_POINTS:
        peaks = list(_read_peaks(connection, key))
        size = math.ceil(len(peaks) / most)
        return [_join(peaks[start : start + size]) for start in range(0, len(peaks), size)]
    steps, values = array("q"), array("d")
    for some_steps, _, some_values in _read_parts(connection, run, name):
        steps.extend(some_steps)
        values.extend(some_values)
    return list(_split(steps, values, max(1, math.ceil(count / most))))


def _read_peaks(connection: sqlite3.Connection, key: int) -> Iterator[Bucket]:
    blocks = connection.execute(
        "SELECT peaks FROM blocks WHERE series = ? ORDER BY number", (key,)
    )
    for (peaks,) in blocks:
        yield from map(Bucket._make, _PEAK.iter_unpack(peaks))
    steps, _, values = _read_tail(connection, key)
    yield from _split(steps, values, _PEAK_POINTS)


def _split(steps: array[int], values: array[float], size: int) -> Iterator[Bucket]:
    for start in range(0, len(values), size):
        part = values[start : start + size]
        if math.isnan(sum(part)):  # one NaN makes min() depend on the order
            part = array("d", (v for v in part if not math.isnan(v))) or array("d", [math.nan])
        last = min(start + size, len(values)) - 1
        yield Bucket(steps[start], steps[last], min(part), max(part))


def _join(buckets: Sequence[Bucket]) -> Bucket:
    known = [bucket for bucket in buckets if not math.isnan(bucket.low)] or buckets
    return Bucket(
        buckets[0].first_step,
        buckets[-1].last_step,
        min(bucket.low for bucket in known),
        max(bucket.high for bucket in known),
    )


def _read_parts(
    connection: sqlite3.Connection, run: str, name: str
) -> Iterator[tuple[array[int], array[int], array[float]]]:
    row = connection.execute(
        "SELECT id FROM series WHERE run = ? AND name = ?", (run, name)
    ).fetchone()
    if row is None:
        return
    blocks = connection.execute(
        "SELECT steps, times, numbers FROM blocks WHERE series = ? ORDER BY number", row
    )
    for steps, times, values in blocks:
        own_steps, own_times, own_values = array("q"), array("q"), array("d")
        own_steps.frombytes(steps)
        own_times.frombytes(times)
        own_values.frombytes(values)
        yield own_steps, own_times, own_values
    yield _read_tail(connection, row[0])


def _read_tail(
    connection: sqlite3.Connection, key: int
) -> tuple[array[int], array[int], array[float]]:
    rows = connection.execute(
        "SELECT step, time_ms, value FROM points WHERE series = ? ORDER BY number", (key,)
    ).fetchall()
    return (
        array("q", (step for step, _, _ in rows)),
        array("q", (time_ms for _, time_ms, _ in rows)),
        array("d", (math.nan if value is None else value for _, _, value in rows)),
    )


def read_summaries(
    connection: sqlite3.Connection, runs: Iterable[str] | None = None
) -> dict[str, list[Summary]]:
    """Run → its series in a few numbers each, in the order of their names; None means all runs."""
    columns = (
        "SELECT run, name, count, finite, low, high, mean, squares, last_step, last_ms, last_value"
        " FROM series"
    )
    if runs is None:
        rows = connection.execute(f"{columns} ORDER BY name").fetchall()
    else:
        rows = [
            row
            for run in runs
            for row in connection.execute(f"{columns} WHERE run = ? ORDER BY name", (run,))
        ]
    found: dict[str, list[Summary]] = {}
    for run, name, count, finite, low, high, mean, squares, *last in rows:
        step, time_ms, value = last
        summary = Summary(
            name=name,
            count=count,
            low=low,
            high=high,
            mean=mean if finite else None,
            deviation=math.sqrt(squares / finite) if finite and squares < math.inf else None,
            last=Point(step, time_ms, math.nan if value is None else value),
        )
        found.setdefault(run, []).append(summary)
    return found


def remove(connection: sqlite3.Connection, run: str) -> None:
    """Remove all series of a run."""
    keys = connection.execute("SELECT id FROM series WHERE run = ?", (run,)).fetchall()
    for table in ("points", "blocks"):
        connection.executemany(f"DELETE FROM {table} WHERE series = ?", keys)  # noqa: S608 - ours
    connection.execute("DELETE FROM series WHERE run = ?", (run,))
