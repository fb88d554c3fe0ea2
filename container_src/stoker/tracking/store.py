"""The run store: one sqlite file, every change one transaction.

WAL: readers (another process included) never block the writer, and a kill -9 at any moment loses
nothing that was committed and leaves nothing half-written.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from stoker.errors import HostError
from stoker.tracking import series
from stoker.tracking.records import Artifact, Link, Record, Run
from stoker.tracking.series import Bucket, Point, Summary

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT,
    created REAL NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS records_by_id ON records (kind, id);
CREATE TABLE IF NOT EXISTS links (
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    kind TEXT NOT NULL,
    created REAL NOT NULL,
    PRIMARY KEY (source, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS links_by_target ON links (target);
"""
_BUSY_SECONDS = 30  # another connection may be writing a large batch
R = TypeVar("R", bound=Record)


class RecordMissing(HostError):
    """There is no record of this kind and name."""


class RecordExists(HostError):
    """There is a record of this kind and name."""


class RunStore:
    """All experiments, trials, runs and lineage of one file.

    Safe to use from several threads and processes. Names are compared without regard to case.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            file, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        # Readers do not wait for a writer. A killed process loses nothing, a power cut at most
        # the last transactions: the file stays whole.
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(_SCHEMA + series.SCHEMA)
        self._depth = 0
        self._changes: dict[str, int] = {}
        """Kind → how often this object has changed its records."""

        self._known: dict[str, tuple[object, list[Any]]] = {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside is done wholly or not at all; may be nested."""
        with self._lock:
            if not self._depth:
                # At once: one that begins as a reader can be refused when it comes to write.
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                if self._depth == 1:
                    self._connection.execute("ROLLBACK")
                    self._known.clear()  # it may have what was never committed
                raise
            else:
                if self._depth == 1:
                    self._connection.execute("COMMIT")
            finally:
                self._depth -= 1

    # ---- records

    def add(self, record: Record) -> None:
        """Keep a new record.

        Raises:
            RecordExists: there is one of its kind and name.
        """
        kind = type(record).__name__
        row = (kind, record.name.lower(), _id_of(record), record.created, _to_text(record))
        try:
            with self.transaction():
                self._note_change(kind)
                self._connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError as error:
            text = f"{kind.lower()} '{record.name}' already exists"
            raise RecordExists(text, fix="choose another name") from error

    def read(self, kind: type[R], name: str) -> R:
        """One record.

        Raises:
            RecordMissing: there is none of this kind and name.
        """
        return self._read_where(kind, "key", name.lower())

    def read_id(self, kind: type[R], id_: str) -> R:
        """The experiment or run with an id. Raises: RecordMissing."""
        return self._read_where(kind, "id", id_)

    def _read_where(self, kind: type[R], column: str, value: str) -> R:
        rows = self._select(
            f"SELECT record FROM records WHERE kind = ? AND {column} = ?",  # noqa: S608 - ours
            kind.__name__,
            value,
        )
        if not rows:
            text = f"there is no {kind.__name__.lower()} '{value}'"
            raise RecordMissing(text, fix="list what there is: `stoker runs ls`")
        return _from_text(kind, rows[0][0])

    def change(self, kind: type[R], name: str, function: Callable[[R], R]) -> R:
        """Replace a record by what a pure function makes of it; returns the new one.

        Raises:
            RecordMissing: there is none of this kind and name.
            RecordExists: the new one has a name that another record has.
        """
        with self.transaction():
            old = self.read(kind, name)
            new = function(old)
            if new.name.lower() != old.name.lower():
                self.add(new)
                self._delete(kind, old.name)
                return new
            self._note_change(kind.__name__)
            self._connection.execute(
                "UPDATE records SET record = ? WHERE kind = ? AND key = ?",
                (_to_text(new), kind.__name__, name.lower()),
            )
        return new

    def read_all(self, kind: type[R]) -> list[R]:
        """All records of a kind, oldest first; parsed again only if one may have changed."""
        with self._lock:
            # A client that pages through 10,000 runs asks for all of them a hundred times.
            # data_version tells of changes by other connections, but not of our own.
            other = self._select("PRAGMA data_version")[0]
            version = (self._changes.get(kind.__name__, 0), other)
            known = self._known.get(kind.__name__)
            if known is None or known[0] != version:
                rows = self._select(
                    "SELECT record FROM records WHERE kind = ? ORDER BY created, key",
                    kind.__name__,
                )
                known = (version, [_from_text(kind, text) for (text,) in rows])
                self._known[kind.__name__] = known
            return list(known[1])

    def remove(self, kind: type[R], name: str) -> None:
        """Remove a record, its series and its links. Raises: RecordMissing."""
        with self.transaction():
            record = self.read(kind, name)
            self._delete(kind, name)
            self.unlink_all(record.node)
            if isinstance(record, Run):
                series.remove(self._connection, record.name.lower())

    def _note_change(self, kind: str) -> None:
        """In the transaction of the change: a list read before it must be read again."""
        self._changes[kind] = self._changes.get(kind, 0) + 1

    def _delete(self, kind: type[Record], name: str) -> None:
        self._note_change(kind.__name__)
        self._connection.execute(
            "DELETE FROM records WHERE kind = ? AND key = ?", (kind.__name__, name.lower())
        )

    # ---- links

    def link(self, link: Link) -> bool:
        """Keep an edge; False if the two are linked already."""
        row = (link.source.lower(), link.target.lower(), link.kind, link.created)
        with self.transaction():
            done = self._connection.execute("INSERT OR IGNORE INTO links VALUES (?, ?, ?, ?)", row)
        return done.rowcount > 0

    def unlink(self, source: str, target: str) -> bool:
        """Remove an edge; False if there is none."""
        with self.transaction():
            done = self._connection.execute(
                "DELETE FROM links WHERE source = ? AND target = ?",
                (source.lower(), target.lower()),
            )
        return done.rowcount > 0

    def unlink_all(self, node: str) -> None:
        """Remove every edge of a node."""
        with self.transaction():
            for column in ("source", "target"):
                self._connection.execute(
                    f"DELETE FROM links WHERE {column} = ?",  # noqa: S608 - ours
                    (node.lower(),),
                )

    def links(self, *, source: str | None = None, target: str | None = None) -> list[Link]:
        """The edges of a node, or all; oldest first."""
        wanted = {"source": source, "target": target}
        given = {column: name.lower() for column, name in wanted.items() if name is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1"
        rows = self._select(
            f"SELECT source, target, kind, created FROM links WHERE {where}"  # noqa: S608 - ours
            " ORDER BY created, source, target",
            *given.values(),
        )
        return [Link(source=s, target=t, kind=k, created=c) for s, t, k, c in rows]

    # ---- metrics

    def log(self, run: str, points: Iterable[tuple[str, Point]]) -> None:
        """Add points of any metrics to a run, in one transaction."""
        by_name: dict[str, list[Point]] = {}
        for name, point in points:
            by_name.setdefault(name, []).append(point)
        with self.transaction():
            for name, own in by_name.items():
                series.append(self._connection, run.lower(), name, own)

    def read_points(self, run: str, metric: str) -> list[Point]:
        """A whole series, in the order in which its points came."""
        with self._lock:
            return series.read_points(self._connection, run.lower(), metric)

    def read_buckets(self, run: str, metric: str, most: int = 1000) -> list[Bucket]:
        """A series thinned out: lowest and highest value of each of at most so many stretches."""
        with self._lock:
            return series.read_buckets(self._connection, run.lower(), metric, most)

    def summaries(self, runs: Iterable[str] | None = None) -> dict[str, list[Summary]]:
        """Name of a run in lower case → its metrics in a few numbers each; None means all runs."""
        keys = None if runs is None else [run.lower() for run in runs]
        with self._lock:
            return series.read_summaries(self._connection, keys)

    def summaries_of(self, run: str) -> list[Summary]:
        """The metrics of one run in a few numbers each."""
        return self.summaries([run]).get(run.lower(), [])

    def version(self) -> object:
        """Another value whenever anything has changed, by this process or another."""
        with self._lock:
            return self._connection.total_changes, self._select("PRAGMA data_version")[0]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _select(self, query: str, *values: str) -> Sequence[Any]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()


def _id_of(record: Record) -> str | None:
    return getattr(record, "id", None)


def _to_text(record: Record) -> str:
    return json.dumps(asdict(record))


def _from_text(kind: type[R], text: str) -> R:
    fields: dict[str, Any] = json.loads(text)
    if kind is Run:
        for side in ("inputs", "outputs"):
            found: Mapping[str, Any] = fields[side]
            fields[side] = {name: Artifact(**each) for name, each in found.items()}
        for name in ("datasets", "models"):
            fields[name] = tuple(fields.get(name, ()))
    return kind(**fields)
