"""The metrics of all jobs as series: every value with its time, in sqlite.

How far a log was read is committed together with the values found in it, so after a kill -9 of
the server no value is lost or doubled. A file of its own: a script that logs a million values
slows no job's state.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_POINTS = 1_000_000
"""Of one host of one job; of what comes later, only the last value of each look is kept."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS points (
    number INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    time_ms INTEGER NOT NULL,
    value REAL NOT NULL,
    step INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS points_by_job ON points (job, name, host);
CREATE TABLE IF NOT EXISTS logs (
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    offset INTEGER NOT NULL,
    points INTEGER NOT NULL,
    PRIMARY KEY (job, host)
) STRICT;
CREATE TABLE IF NOT EXISTS given_up (
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (job, name)
) STRICT;
"""
_BUSY_SECONDS = 30  # another connection may be writing a large batch


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One value of a metric."""

    name: str
    host: str
    time_ms: int
    value: float
    step: int | None = None
    """As `job.log` has it; a line that an expression matched has none."""


class MetricSeries:
    """All series of a root; safe to use from several threads."""

    def __init__(self, database: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            database, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        self._connection.execute("PRAGMA journal_mode=WAL")
        # With WAL: a kill -9 loses nothing, a power failure the last transactions at most.
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(_SCHEMA)
        _add_steps(self._connection)

    def add(
        self,
        job: str,
        host: str,
        points: Sequence[Point],
        *,
        offset: int,
        given_up: Collection[str] = (),
    ) -> None:
        """Keep what was found in one log up to an offset, in one transaction.

        Args:
            job: the job.
            host: whose log; or the name of another file of its.
            points: what was found.
            offset: how far the log is read.
            given_up: metrics whose expressions took too long.
        """
        rows = [(job, p.name, p.host, p.time_ms, p.value, p.step) for p in points]
        with self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            known = self._connection.execute(
                "SELECT points FROM logs WHERE job = ? AND host = ?", (job, host)
            ).fetchone()
            if known and known[0] >= MOST_POINTS:
                rows = list({row[1]: row for row in rows}.values())
            self._connection.executemany(
                "INSERT INTO points (job, name, host, time_ms, value, step)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._connection.executemany(
                "INSERT OR IGNORE INTO given_up VALUES (?, ?)", [(job, name) for name in given_up]
            )
            self._connection.execute(
                "INSERT INTO logs VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET offset = excluded.offset, points = points + excluded.points",
                (job, host, offset, len(rows)),
            )

    def read(self, job: str, name: str) -> list[Point]:
        """One metric in the order of time; values of one moment in the order of the log."""
        return self._points("job = ? AND name = ? ORDER BY time_ms, number", job, name)

    def read_last(self, job: str) -> dict[str, Point]:
        """The last value of every metric of a job."""
        newest = (
            "number IN (SELECT number FROM (SELECT number, row_number() OVER"
            " (PARTITION BY name ORDER BY time_ms DESC, number DESC) AS place"
            " FROM points WHERE job = ?) WHERE place = 1)"
        )
        return {point.name: point for point in self._points(newest, job)}

    def read_after(self, number: int, most: int) -> list[tuple[int, str, Point]]:
        """The points of all jobs behind a number, as (number, job, point), in their order."""
        rows = self._select(
            "SELECT number, job, name, host, time_ms, value, step FROM points WHERE number > ?"
            " ORDER BY number LIMIT ?",
            number,
            most,
        )
        return [
            (number, job, Point(name=name, host=host, time_ms=time_ms, value=value, step=step))
            for number, job, name, host, time_ms, value, step in rows
        ]

    def names(self) -> list[tuple[str, str]]:
        """Job and name of every series."""
        return self._select("SELECT DISTINCT job, name FROM points ORDER BY job, name")

    def offset(self, job: str, host: str) -> int:
        """How far the log of a host was read."""
        rows = self._select("SELECT offset FROM logs WHERE job = ? AND host = ?", job, host)
        return int(rows[0][0]) if rows else 0

    def given_up(self, job: str) -> set[str]:
        """The metrics whose regular expression took too long."""
        return {name for (name,) in self._select("SELECT name FROM given_up WHERE job = ?", job)}

    def remove(self, job: str) -> None:
        """Forget a job: its name may be used again."""
        with self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for table in ("points", "logs", "given_up"):
                self._connection.execute(f"DELETE FROM {table} WHERE job = ?", (job,))  # noqa: S608 - ours

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _points(self, condition: str, *values: str) -> list[Point]:
        rows = self._select(
            f"SELECT name, host, time_ms, value FROM points WHERE {condition}",  # noqa: S608 - ours
            *values,
        )
        return [Point(name=n, host=h, time_ms=t, value=v) for n, h, t, v in rows]

    def _select(self, query: str, *values: str | int) -> list[Any]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()


def _add_steps(connection: sqlite3.Connection) -> None:
    """A root that an earlier version made has no steps."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(points)")}
    if "step" not in columns:
        connection.execute("ALTER TABLE points ADD COLUMN step INTEGER")
