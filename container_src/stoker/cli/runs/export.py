"""Runs for other programs: tables, or an MLflow server."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.errors import HostError
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.storage.mlflow import (
    MOST_METRICS,
    TrackingRefused,
    TrackingServer,
    clean_name,
    end_run,
    find_experiment,
    make_metric,
)
from stoker.tracking.records import show_parameter
from stoker.tracking.run_rows import RunRow
from stoker.tracking.store import RunStore

_STATUSES = {"Completed": "FINISHED", "Failed": "FAILED", "Stopped": "KILLED"}
_ORIGIN_TAG = "stoker.run"
_MOST_PARAMS = 100  # MLflow's limit of one log-batch
_LONGEST_PARAM = 6000  # MLflow's limit of a value

Cell = str | float | int | None


def make_run_table(rows: Sequence[RunRow]) -> list[dict[str, Cell]]:
    """A row for each run; every row has every column."""
    made = [_make_record(row) for row in rows]
    columns = dict.fromkeys(name for record in made for name in record)
    return [{name: record.get(name) for name in columns} for record in made]


def _make_record(row: RunRow) -> dict[str, Cell]:
    run = row.run
    code = run.lineage.get("source_code", {})
    return {
        "run": run.name,
        "id": run.id,
        "name": row.name,
        "experiment": row.experiment,
        "status": run.status,
        "started": row.started,
        "duration_seconds": row.duration_seconds,
        "image": run.lineage.get("image", {}).get("digest", ""),
        "git_commit": code.get("git_commit", ""),
        **{f"params.{name}": value for name, value in run.parameters.items()},
        **{f"metrics.{name}": each.last.value for name, each in row.metrics.items()},
        **{f"tags.{name}": value for name, value in run.tags.items()},
    }


def list_points(store: RunStore, rows: Sequence[RunRow]) -> Iterator[dict[str, Cell]]:
    """A row for each point of each metric."""
    for row in rows:
        for name in row.metrics:
            for step, time_ms, value in store.read_points(row.run.name, name):
                yield {
                    "run": row.run.name,
                    "metric": name,
                    "step": step,
                    "time": time_ms / 1000,
                    "value": value,
                }


def render_csv(records: Sequence[Mapping[str, Cell]]) -> str:
    """With a header; nothing at all for no rows."""
    if not records:
        return ""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def write_parquet(records: Sequence[Mapping[str, Cell]], file: Path) -> None:
    """One table; a column of numbers and texts becomes one of texts.

    Raises:
        UsageRefused: pyarrow is not installed.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageRefused(
            "pyarrow is not installed", fix="pip install pyarrow; or use --csv"
        ) from error
    names = list(records[0]) if records else ["run"]
    columns = {name: _unify([record.get(name) for record in records]) for name in names}
    parquet.write_table(arrow.table(columns), file)


def _unify(column: list[Cell]) -> list[Cell]:
    if any(isinstance(value, str) for value in column):
        return [None if value is None else str(value) for value in column]
    return [float(value) if isinstance(value, int) else value for value in column]


def send_to_mlflow(
    store: RunStore, rows: Sequence[RunRow], uri: str
) -> Iterator[tuple[str, str, bool]]:
    """Each run as soon as it is sent: its name, its id there, and whether it is new there.

    A run that was sent before is not sent again.

    Raises:
        HostError: the server refuses, or cannot be reached.
    """
    try:
        server = TrackingServer(uri, read_environment())
        for row in rows:
            yield (row.name, *_send_run(server, store, row))
    except ValueError as error:
        raise UsageRefused(str(error), fix="--mlflow http://host:5000, or an ARN") from error
    except (TrackingRefused, OSError) as error:
        raise HostError(
            f"{uri} does not take the runs: {error}",
            fix="see that the server runs, and MLFLOW_TRACKING_USERNAME and _PASSWORD",
        ) from error


def _send_run(server: TrackingServer, store: RunStore, row: RunRow) -> tuple[str, bool]:
    run = row.run
    experiment = find_experiment(server, row.experiment)
    known = f"tags.`{_ORIGIN_TAG}` = '{run.id}'"
    asked: dict[str, object] = {"experiment_ids": [experiment], "filter": known}
    if found := server.call("runs/search", {**asked, "max_results": 1}).get("runs"):
        return str(found[0]["info"]["run_id"]), False
    tags = {**run.tags, _ORIGIN_TAG: run.id, "mlflow.source.name": run.source or run.name}
    answer = server.call(
        "runs/create",
        {
            "experiment_id": experiment,
            "run_name": row.name,
            "start_time": round(row.started * 1000),
            "tags": [
                {"key": clean_name(key), "value": value[:5000]} for key, value in tags.items()
            ],
        },
    )
    run_id = str(answer["run"]["info"]["run_id"])
    params = [
        {"key": clean_name(key), "value": show_parameter(value)[:_LONGEST_PARAM]}
        for key, value in run.parameters.items()
    ]
    for first in range(0, len(params), _MOST_PARAMS):
        body = {"run_id": run_id, "params": params[first : first + _MOST_PARAMS]}
        server.call("runs/log-batch", body)
    for name in row.metrics:
        points = store.read_points(run.name, name)
        for first in range(0, len(points), MOST_METRICS):
            metrics = [
                make_metric(clean_name(name), point.value, time_ms=point.time_ms, step=point.step)
                for point in points[first : first + MOST_METRICS]
            ]
            server.call("runs/log-batch", {"run_id": run_id, "metrics": metrics})
    if run.status in _STATUSES:
        end_run(server, run_id, _STATUSES[run.status], ended=run.ended or row.started)
    return run_id, True
