"""The files of a profile as arrays; files that were read whole are not read again."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.bus.job_phases import read_phases
from stoker.bus.step_records import (
    DTYPE,
    EVALUATION,
    FIRST_OF_EPOCH,
    SPLIT,
    RankSteps,
    read_steps,
    steps_file,
)
from stoker.bus.system_samples import list_sample_files, read_events
from stoker.contract.files import read_regular
from stoker.contract.quick_json import loads
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Event, Profile, Series, StepSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Key = tuple[str, str, str]
_Columns = dict[_Key, tuple["array[float]", "array[float]"]]

MOST_EVENTS = 500_000
"""Of timelines: more of them are not read; the latest files come first."""


LATEST = 1e11
"""Unix time that no clock shows."""
LONGEST_SECONDS = 1e7
"""Of the steps in one record: four months."""


class ProfileReader:
    """Reads one folder again and again, as it grows."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._closed: _Columns = {}
        self._seen: set[str] = set()
        self.damaged: list[str] = []
        """Files that could not be read."""

    def read(self) -> Profile:
        """Everything that is there now."""
        processes = read_steps(self._folder)
        self._name_damaged(processes)
        return Profile(
            samples=self._read_samples(),
            steps=[series for one in processes for series in make_steps(one)],
            events=self._read_timelines(),
            facts=[one.facts for one in processes],
            phases=read_phases(self._folder),
        )

    def _name_damaged(self, processes: Sequence[RankSteps]) -> None:
        for one in processes:
            facts = one.facts
            file = steps_file(self._folder, host=facts.host, rank=facts.rank, pid=facts.pid)
            if file not in self.damaged and not _are_possible(_read_rows(one)).all():
                self.damaged.append(file)

    def _read_samples(self) -> dict[str, dict[tuple[str, str], Series]]:
        files = list(list_sample_files(self._folder))
        newest: dict[str, int] = {}
        for _, node, minute in files:
            newest[node] = max(minute, newest.get(node, 0))
        still_open: _Columns = {}
        for file, node, minute in files:
            if file in self._seen:
                continue
            if minute < newest[node]:
                self._seen.add(file)
                _add_events(read_events(file), self._closed)
            else:
                _add_events(read_events(file), still_open)
        found: dict[str, dict[tuple[str, str], Series]] = {}
        for key in {**self._closed, **still_open}:
            node, dimension, name = key
            parts = [columns[key] for columns in (self._closed, still_open) if key in columns]
            found.setdefault(node, {})[dimension, name] = _join(parts)
        return found

    def _read_timelines(self) -> list[Event]:
        events: list[Event] = []
        root = f"{self._folder}/framework/pevents"
        files = sorted(
            (os.path.join(where, name) for where, _, names in os.walk(root) for name in names),
            reverse=True,
        )
        for file in files:
            if file.endswith(".json") and len(events) < MOST_EVENTS:
                try:
                    events += read_timeline(file)
                except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
                    if file not in self.damaged:
                        self.damaged.append(file)
        return sorted(events, key=lambda event: event.start)


def make_steps(one: RankSteps) -> list[StepSeries]:
    """The steps of one process: those that train, and those that evaluate."""
    rows = _read_rows(one)
    rows = rows[_are_possible(rows)]
    # A clock that was set back must not upset the order.
    rows = rows[np.argsort(rows["start"], kind="stable")]
    is_evaluation = (rows["flags"] & EVALUATION) > 0
    chosen = {"TRAIN": rows[~is_evaluation], "EVAL": rows[is_evaluation]}
    return [_make_series(one, mode, of_mode) for mode, of_mode in chosen.items() if len(of_mode)]


def _read_rows(one: RankSteps) -> Any:  # noqa: ANN401 - an array of records
    return np.frombuffer(one.records, dtype=list(DTYPE))


def _are_possible(rows: Any) -> NDArray[np.bool_]:  # noqa: ANN401 - as above
    """Which records can be true: what a fault of the disk has left cannot."""
    total = rows["total"].astype(float)
    parts = sum((np.nan_to_num(rows[name].astype(float)) for name in SPLIT), np.zeros(len(rows)))
    found: NDArray[np.bool_] = (
        (rows["count"] > 0)
        & (rows["start"] > 0)
        & (rows["start"] < LATEST)
        & (total >= 0)
        & (total < LONGEST_SECONDS)
        & (np.abs(parts) <= 1.01 * total + 0.001)  # the sums are rounded
    )
    return found


def _make_series(one: RankSteps, mode: str, rows: Any) -> StepSeries:  # noqa: ANN401 - an array
    # The training ones last longer than forward and so on: `data_wait` and the rest in seconds.
    return StepSeries(
        node=one.facts.host,
        rank=one.facts.rank,
        mode=mode,
        numbers=rows["step"].astype(float),
        starts=rows["start"].astype(float),
        seconds=rows["total"].astype(float),
        counts=rows["count"].astype(float),
        longest=rows["longest"].astype(float),
        first_of_epoch=(rows["flags"] & FIRST_OF_EPOCH) > 0,
        parts={name: np.nan_to_num(rows[name].astype(float)) for name in SPLIT},
        ready_batches=rows["ready_batches"].astype(float),
    )


def read_timeline(file: str) -> list[Event]:
    """The events of one file in Chrome's trace format, as smdebug writes it.

    Raises:
        OSError, ValueError, TypeError, KeyError: it cannot be read.
    """
    entries = loads(read_regular(file).decode("utf-8", "replace"))
    start_us, phases, found = 0.0, {}, []
    node = os.path.basename(file).partition("_")[2].rpartition("_")[0].partition("-")[2]
    for entry in entries:
        arguments = entry.get("args") or {}
        if entry.get("ph") == "M":
            start_us = float(arguments.get("start_time_since_epoch_in_micros", start_us))
            if "name" in arguments:
                phases[entry.get("pid")] = str(arguments["name"])
        elif entry.get("ph") == "X":
            found.append(
                Event(
                    node=node.rpartition("_")[0] or node,
                    phase=phases.get(entry.get("pid"), str(entry["name"])),
                    name=str(entry["name"]),
                    start=(start_us + float(entry["ts"])) / 1e6,
                    seconds=float(entry.get("dur", 0)) / 1e6,
                    pid=int(arguments.get("pid") or 0),
                )
            )
    return found


def _add_events(events: Sequence[dict[str, Any]], columns: _Columns) -> None:
    for event in events:
        try:
            when, value = float(event["Timestamp"]), float(event["Value"])
            key = (event["NodeId"], event.get("Dimension") or "", event.get("Name") or "")
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        found = columns.get(key)
        if found is None:
            found = columns[key] = (array("d"), array("d"))
        found[0].append(when)
        found[1].append(value)


def _join(parts: Sequence[tuple[array[float], array[float]]]) -> Series:
    times, values = (np.concatenate([_view(part[place]) for part in parts]) for place in (0, 1))
    is_usable = np.isfinite(times) & np.isfinite(values)
    if not is_usable.all():
        times, values = times[is_usable], values[is_usable]
    if len(times) > 1 and (np.diff(times) < 0).any():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return Series(times=times, values=values)


def _view(column: array[float]) -> NDArray[Any]:
    return np.array(column, dtype=float)  # a copy: an array that is viewed cannot grow
