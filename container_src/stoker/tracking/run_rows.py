"""Runs as rows of a table: found by any of their names, filtered, sorted."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import HostError
from stoker.tracking.memberships import Memberships
from stoker.tracking.records import Parameter, Run, show_parameter
from stoker.tracking.run_filter import Facts, parse_filter
from stoker.tracking.series import Summary
from stoker.tracking.store import RunStore

SORT_KEYS = ("created", "duration", "name", "status", "experiment")
ATTRIBUTES = (
    *("name", "run_name", "run_id", "status", "experiment"),
    *("created", "start_time", "duration"),
)
"""Of a run, as filters name them."""

_SHORTEST_ID = 6


class RunUnknown(HostError):
    """No run, or more than one, has this name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """A run with its metrics and its experiment."""

    run: Run
    experiment: str
    metrics: Mapping[str, Summary]

    @property
    def name(self) -> str:
        """What to show: its title, or the name of its job."""
        return self.run.title or self.run.name.removesuffix("-aws-training-job")

    @property
    def started(self) -> float:
        return self.run.started or self.run.created

    @property
    def duration_seconds(self) -> float | None:
        """None while it runs, or if it never did."""
        return None if self.run.ended is None else self.run.ended - self.started


def read_rows(store: RunStore) -> list[RunRow]:
    """All runs, the newest first."""
    members, summaries = Memberships(store), store.summaries()
    rows = [
        RunRow(
            run=run,
            experiment=members.experiment_of(run.name),
            metrics={s.name: s for s in summaries.get(run.name.lower(), ())},
        )
        for run in store.read_all(Run)
        if not run.is_deleted
    ]
    return rows[::-1]


def find_row(rows: Sequence[RunRow], name: str) -> RunRow:
    """A run by its name, its job's, its title or the beginning of its id.

    Raises:
        RunUnknown: none has it, or several have; names the nearest.
    """
    low = name.lower()
    makers: tuple[Callable[[RunRow], bool], ...] = (
        lambda row: row.run.name.lower() == low or row.run.id == low,
        lambda row: row.run.name.lower().startswith(f"{low}-aws-"),
        lambda row: row.name.lower() == low,
        # A shorter beginning fits too many ids.
        lambda row: len(low) >= _SHORTEST_ID and row.run.id.startswith(low),
    )
    for fits in makers:
        found = [row for row in rows if fits(row)]
        if len(found) > 1:
            names = ", ".join(row.run.name for row in found[:5])
            raise RunUnknown(
                f"{len(found)} runs are named {name}: {names}", fix="use one of these"
            )
        if found:
            return found[0]
    near = difflib.get_close_matches(name, [row.name for row in rows], n=3, cutoff=0.5)
    fix = f"did you mean {' or '.join(near)}?" if near else "`stoker runs ls` lists them"
    raise RunUnknown(f"there is no run {name}", fix=fix)


def filter_rows(rows: Sequence[RunRow], text: str, experiment: str = "") -> list[RunRow]:
    """Those that fit a filter such as `params.lr < 0.01 and metrics.loss < 1`.

    Raises:
        FilterInvalid: it cannot be read.
    """
    conditions = parse_filter(text, ATTRIBUTES)
    return [
        row
        for row in rows
        if (not experiment or row.experiment.lower() == experiment.lower())
        and all(condition.holds(_make_facts(row)) for condition in conditions)
    ]


def sort_rows(rows: Sequence[RunRow], key: str, *, is_rising: bool) -> list[RunRow]:
    """By `created`, `param:lr`, `metric:loss` (its last value), `metric:loss.min` and the like.

    Those without the value come last. Raises RunUnknown for a key that cannot be.
    """
    value = _make_key(key)
    present = [row for row in rows if value(row) is not None]
    absent = [row for row in rows if value(row) is None]

    def order(row: RunRow) -> tuple[int, float, str]:
        found = value(row)
        if isinstance(found, int | float):
            return (0, found, "")
        return (1, 0.0, str(found).lower())

    return sorted(present, key=order, reverse=not is_rising) + absent


def _make_key(key: str) -> Callable[[RunRow], Parameter | None]:
    group, _, name = key.partition(":")
    if group in ("metric", "metrics") and name:
        return lambda row: find_metric(row, name)
    if group in ("param", "params") and name:
        return lambda row: row.run.parameters.get(name)
    if group in ("tag", "tags") and name:
        return lambda row: row.run.tags.get(name)
    plain: Mapping[str, Callable[[RunRow], Parameter | None]] = {
        "created": lambda row: row.run.created,
        "duration": lambda row: row.duration_seconds,
        "name": lambda row: row.name,
        "status": lambda row: row.run.status or "",
        "experiment": lambda row: row.experiment,
    }
    if key in plain:
        return plain[key]
    raise RunUnknown(
        f"{key!r} is not something to sort by",
        fix=f"use metric:NAME, metric:NAME.min, param:NAME, tag:NAME or {', '.join(SORT_KEYS)}",
    )


def find_metric(row: RunRow, name: str) -> float | None:
    """The last value of `loss`, the lowest of `loss.min`; None without one, or for NaN."""
    stem, _, kind = name.rpartition(".")
    if name in row.metrics:
        value: float | None = row.metrics[name].last.value
    elif stem in row.metrics and kind in ("min", "max", "mean", "last"):
        found = row.metrics[stem]
        value = {
            "min": found.low,
            "max": found.high,
            "mean": found.mean,
            "last": found.last.value,
        }[kind]
    else:
        return None
    return None if value is None or math.isnan(value) else value


def _make_facts(row: RunRow) -> Facts:
    """The same names as MLflow's filters have, and those of --sort."""
    run = row.run
    return {
        "metrics": {name: summary.last.value for name, summary in row.metrics.items()},
        "params": {name: show_parameter(value) for name, value in run.parameters.items()},
        "tags": dict(run.tags),
        "attributes": {
            **dict.fromkeys(("name", "run_name"), row.name),
            "run_id": run.id,
            "status": run.status or "",
            "experiment": row.experiment,
            **dict.fromkeys(("created", "start_time"), row.started),
            "duration": row.duration_seconds,
        },
    }
