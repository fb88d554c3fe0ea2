"""The jobs on disk: sqlite, one row per job, every change one transaction."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from stoker.bus.rule_status import RuleStatus
from stoker.errors import HostError
from stoker.platform.jobs.state import (
    Attempt,
    JobRecord,
    Metric,
    PoolStatus,
    Transition,
    Verdict,
    WarmPool,
)
from stoker.platform.model.processing_request import PREFIX
from stoker.platform.model.root import SPARE_BYTES

_CREATED = "json_extract(record, '$.created')"
_MODIFIED = "json_extract(record, '$.modified')"
_WARM = "json_extract(record, '$.warm.status')"
_STATUS = "json_extract(record, '$.status')"
# Indexes over expressions: a list call reads one page, however many jobs there are.
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS jobs (
    name TEXT PRIMARY KEY,
    stage TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_stage ON jobs (stage);
CREATE INDEX IF NOT EXISTS jobs_by_creation ON jobs ({_CREATED}, name);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs ({_STATUS}, name);
CREATE INDEX IF NOT EXISTS jobs_by_warm_pool ON jobs ({_WARM}, name);
CREATE INDEX IF NOT EXISTS jobs_by_lower_name ON jobs (lower(name));
"""
_ORDERS = {"name": "name", "created": _CREATED, "status": _STATUS}
_BUSY_SECONDS = 30  # another connection may be writing a large batch
_SPARE_BYTES = 8 << 20
_UPDATE = "UPDATE jobs SET stage = ?, record = ? WHERE name = ?"


class NameTaken(HostError):
    """There is a job of this name."""


class UnknownJob(HostError):
    """There is no job of this name."""


JobKind = Literal["training", "processing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobQuery:
    """Which jobs a list call wants, and in which order."""

    limit: int
    kind: JobKind = "training"
    order: Literal["name", "created", "status"] = "created"
    descending: bool = False
    after: tuple[str | float, str] | None = None
    """The order's value and the name of the last job that was listed."""

    name_contains: str = ""
    status: str | None = None
    warm_status: str | None = None
    created: tuple[float | None, float | None] = (None, None)
    """From, until; both included."""

    modified: tuple[float | None, float | None] = (None, None)


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
        # A power failure may lose the last transactions, but never damages the file.
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(_SCHEMA)
        self._spare = database.with_name("spare")
        self._take_spare()

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
        self._take_spare()

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
            row = (record.stage, _to_text(record), name)
            try:
                self._connection.execute(_UPDATE, row)
            except sqlite3.OperationalError:
                if not self._free_spare():
                    raise
                self._connection.execute(_UPDATE, row)
        return record

    def make_room(self) -> None:
        """Give back the space that is kept if the disk is full: to remove rows takes some, too."""
        if shutil.disk_usage(self._spare.parent).free < SPARE_BYTES:
            self._free_spare()

    def delete(self, name: str) -> None:
        """Forget a job; one that is not there is not an error."""
        with self._lock:
            self._connection.execute("DELETE FROM jobs WHERE name = ?", (name,))
        self._take_spare()

    def find_lower(self, name: str) -> JobRecord | None:
        """The job whose name in lower case is this; ARNs have no other."""
        found = self._select("SELECT record FROM jobs WHERE lower(name) = ?", name)
        return found[0] if found else None

    def page(self, query: JobQuery) -> list[JobRecord]:
        """One page of jobs, in the order of the query."""
        name_start = 1 if query.kind == "training" else len(PREFIX) + 1
        conditions = [
            ("name NOT GLOB ?" if query.kind == "training" else "name GLOB ?", f"{PREFIX}*"),
            (f"instr(lower(substr(name, {name_start})), lower(?))", query.name_contains or None),
            (f"{_STATUS} = ?", query.status),
            (f"{_WARM} = ?", query.warm_status),
            (f"{_CREATED} >= ?", query.created[0]),
            (f"{_CREATED} <= ?", query.created[1]),
            (f"{_MODIFIED} >= ?", query.modified[0]),
            (f"{_MODIFIED} <= ?", query.modified[1]),
        ]
        kept: list[tuple[str, tuple[object, ...]]] = [
            (sql, (value,)) for sql, value in conditions if value is not None
        ]
        order = _ORDERS[query.order]
        if query.after is not None:
            beyond = "<" if query.descending else ">"
            kept.append((f"({order}, name) {beyond} (?, ?)", query.after))
        where = " AND ".join(sql for sql, _ in kept) or "1"
        direction = "DESC" if query.descending else "ASC"
        sql = (
            f"SELECT record FROM jobs WHERE {where}"  # noqa: S608 - only our own expressions
            f" ORDER BY {order} {direction}, name {direction} LIMIT ?"
        )
        values = [value for _, values in kept for value in values]
        with self._lock:
            rows = self._connection.execute(sql, (*values, query.limit)).fetchall()
        return [_from_text(text) for (text,) in rows]

    def unfinished(self) -> list[JobRecord]:
        """The jobs that still have something to do, oldest first."""
        return self._select("SELECT record FROM jobs WHERE stage != 'ended'")

    def with_warm_pool(self, status: PoolStatus) -> list[JobRecord]:
        """The jobs whose warm pool is in a state, oldest first."""
        return self._select(f"SELECT record FROM jobs WHERE {_WARM} = ?", status)  # noqa: S608 - our own expression

    def _take_spare(self) -> None:
        """Keep some space: a job that fills the disk is still recorded as ended, and removed."""
        with suppress(OSError), self._spare.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, _SPARE_BYTES)

    def _free_spare(self) -> bool:
        had_one = self._spare.exists()
        self._spare.unlink(missing_ok=True)
        return had_one

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _select(self, query: str, *values: str) -> list[JobRecord]:
        with self._lock:
            rows = self._connection.execute(query, values).fetchall()
        return sorted((_from_text(text) for (text,) in rows), key=lambda r: (r.created, r.name))


def _to_text(record: JobRecord) -> str:
    return json.dumps(asdict(record), default=vars)  # a RuleStatus is not a dataclass


def _from_text(text: str) -> JobRecord:
    fields: dict[str, Any] = json.loads(text)
    fields["transitions"] = tuple(Transition(**each) for each in fields["transitions"])
    fields["attempts"] = tuple(Attempt(**each) for each in fields["attempts"])
    fields["metrics"] = tuple(Metric(**each) for each in fields["metrics"])
    fields["notes"] = tuple(fields.get("notes", ()))
    # A root of an earlier version knows no rules.
    fields["rules"] = tuple(RuleStatus(**each) for each in fields.get("rules", ()))
    fields["verdict"] = Verdict(**fields["verdict"]) if fields["verdict"] else None
    warm = fields.get("warm")
    fields["warm"] = WarmPool(**warm) if warm else None
    return JobRecord(**fields)
