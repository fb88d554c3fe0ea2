"""The jobs on disk: sqlite, one row per job, every change one transaction."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stoker.errors import HostError
from stoker.platform.jobs.state import Attempt, JobRecord, Metric, RuleStatus, Transition, Verdict

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    name TEXT PRIMARY KEY,
    stage TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_stage ON jobs (stage);
"""
_BUSY_SECONDS = 30


class NameTaken(HostError):
    """There is a job of this name."""


class UnknownJob(HostError):
    """There is no job of this name."""


class Store:
    """All jobs of a root. Safe to use from several threads; one server per root uses it."""

    def __init__(self, database: Path) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            database, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        # WAL: readers (sqlite3 in a terminal) never block the server, and a kill -9 loses nothing
        # that was committed.
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(_SCHEMA)

    def add(self, record: JobRecord) -> None:
        """Keep a new job.

        Raises:
            NameTaken: there is one of this name.
        """
        row = (record.name, record.stage, _to_text(record))
        try:
            with self._lock:
                self._connection.execute("INSERT INTO jobs VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError as error:
            raise NameTaken(f"a job named {record.name} exists") from error

    def read(self, name: str) -> JobRecord:
        """One job.

        Raises:
            UnknownJob: there is none of this name.
        """
        with self._lock:
            row = self._connection.execute(
                "SELECT record FROM jobs WHERE name = ?", (name,)
            ).fetchone()
        if row is None:
            raise UnknownJob(f"no job is named {name}")
        return _from_text(row[0])

    def change(self, name: str, function: Callable[[JobRecord], JobRecord]) -> JobRecord:
        """Replace a job by what a pure function makes of it; returns the new one."""
        with self._lock:
            record = function(self.read(name))
            self._connection.execute(
                "UPDATE jobs SET stage = ?, record = ? WHERE name = ?",
                (record.stage, _to_text(record), name),
            )
        return record

    def all(self) -> list[JobRecord]:
        """Every job, oldest first."""
        return self._select("SELECT record FROM jobs")

    def unfinished(self) -> list[JobRecord]:
        """The jobs that still have something to do, oldest first."""
        return self._select("SELECT record FROM jobs WHERE stage != 'ended'")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _select(self, query: str) -> list[JobRecord]:
        with self._lock:
            rows = self._connection.execute(query).fetchall()
        return sorted((_from_text(text) for (text,) in rows), key=lambda r: (r.created, r.name))


def _to_text(record: JobRecord) -> str:
    return json.dumps(asdict(record))


def _from_text(text: str) -> JobRecord:
    fields: dict[str, Any] = json.loads(text)
    fields["transitions"] = tuple(Transition(**each) for each in fields["transitions"])
    fields["attempts"] = tuple(Attempt(**each) for each in fields["attempts"])
    fields["metrics"] = tuple(Metric(**each) for each in fields["metrics"])
    # A root of an earlier version knows no rules.
    fields["rules"] = tuple(RuleStatus(**each) for each in fields.get("rules", ()))
    fields["verdict"] = Verdict(**fields["verdict"]) if fields["verdict"] else None
    return JobRecord(**fields)
