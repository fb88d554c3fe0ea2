"""The tuning jobs on disk: one row each, every change one transaction."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stoker.platform.tuning.state import ParentTrial, TrialRecord, TuningRecord

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tuning_jobs (
    name TEXT PRIMARY KEY,
    record TEXT NOT NULL
) STRICT;
"""
_BUSY_SECONDS = 30  # another connection may be writing a large batch


class TuningStore:
    """All tuning jobs of a root, in the file of its training jobs; safe to use from threads."""

    def __init__(self, database: Path) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            database, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        self._connection.executescript(_SCHEMA)

    def add(self, record: TuningRecord) -> bool:
        """Keep a new tuning job; False if there is one of this name."""
        row = (record.name, _to_text(record))
        with self._lock:
            done = self._connection.execute("INSERT OR IGNORE INTO tuning_jobs VALUES (?, ?)", row)
            return done.rowcount == 1

    def find(self, name: str) -> TuningRecord | None:
        """One tuning job, if it is there."""
        with self._lock:
            row = self._connection.execute(
                "SELECT record FROM tuning_jobs WHERE name = ?", (name,)
            ).fetchone()
        return _from_text(row[0]) if row else None

    def read_all(self) -> list[TuningRecord]:
        """Every tuning job, oldest first."""
        with self._lock:
            rows = self._connection.execute("SELECT record FROM tuning_jobs").fetchall()
        return sorted((_from_text(text) for (text,) in rows), key=lambda r: (r.created, r.name))

    def read_changed(self, since: float) -> list[TuningRecord]:
        """The tuning jobs that changed at or after a time."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT record FROM tuning_jobs WHERE json_extract(record, '$.modified') >= ?",
                (since,),
            ).fetchall()
        return [_from_text(text) for (text,) in rows]

    def change(self, name: str, function: Callable[[TuningRecord], TuningRecord]) -> TuningRecord:
        """Replace a tuning job by what a pure function makes of it; returns the new one.

        Raises:
            KeyError: there is none of this name.
        """
        with self._lock:
            old = self.find(name)
            if old is None:
                raise KeyError(name)
            record = function(old)
            if record != old:
                self._connection.execute(
                    "UPDATE tuning_jobs SET record = ? WHERE name = ?",
                    (_to_text(record), name),
                )
        return record

    def delete(self, name: str) -> None:
        """Forget a tuning job; its training jobs stay."""
        with self._lock:
            self._connection.execute("DELETE FROM tuning_jobs WHERE name = ?", (name,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def _to_text(record: TuningRecord) -> str:
    # SQLite refuses to look into JSON with NaN, for all rows of a query.
    return json.dumps(asdict(record), allow_nan=False)


def _from_text(text: str) -> TuningRecord:
    fields: dict[str, Any] = json.loads(text)
    fields["trials"] = tuple(TrialRecord(**each) for each in fields["trials"])
    fields["earlier"] = tuple(ParentTrial(**each) for each in fields["earlier"])
    return TuningRecord(**fields)
