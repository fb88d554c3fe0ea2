"""Runs as tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from stoker.machine.terminal import make_table
from stoker.machine.units import show_elapsed, show_size
from stoker.tracking.records import Parameter
from stoker.tracking.run_rows import RunRow
from stoker.tracking.series import Summary

_MOST_COLUMNS = 4
_LONGEST_CELL = 24


def make_json(row: RunRow) -> dict[str, Any]:
    """One run as `--json` prints it."""
    run = row.run
    return {
        "name": row.name,
        "run": run.name,
        "id": run.id,
        "experiment": row.experiment,
        "status": run.status,
        "message": run.message,
        "created": run.created,
        "started": run.started,
        "ended": run.ended,
        "job": run.source,
        "parameters": dict(run.parameters),
        "metrics": {name: _summary_json(summary) for name, summary in row.metrics.items()},
        "inputs": {name: artifact.uri for name, artifact in run.inputs.items()},
        "outputs": {name: artifact.uri for name, artifact in run.outputs.items()},
        "tags": dict(run.tags),
        "lineage": dict(run.lineage),
    }


def _summary_json(summary: Summary) -> dict[str, Any]:
    numbers = {
        "last": summary.last.value,
        "min": summary.low,
        "max": summary.high,
        "mean": summary.mean,
    }
    finite = {k: v if v is not None and math.isfinite(v) else None for k, v in numbers.items()}
    return {**finite, "count": summary.count, "step": summary.last.step}


def render_rows(rows: Sequence[RunRow], total: int) -> Iterator[str]:
    """A table: of parameters and metrics, those that tell the runs apart."""
    if not rows:
        yield "no runs"
        return
    metrics = choose_metrics(rows)
    params = choose_params(rows)
    header = ["RUN", "EXPERIMENT", "STATUS", "STARTED", "DURATION"]
    table = [[*header, *(name[:_LONGEST_CELL] for name in (*params, *metrics))]]
    for row in rows:
        duration = row.duration_seconds
        cells = [
            row.name,
            row.experiment,
            row.run.status or "",
            datetime.fromtimestamp(row.started).strftime("%Y-%m-%d %H:%M"),
            "" if duration is None else show_elapsed(duration),
            *(show_value(row.run.parameters.get(name)) for name in params),
            *(_show_last(row, name) for name in metrics),
        ]
        table.append(cells)
    numbers = range(4, len(table[0]))
    yield from make_table(table, right=numbers)
    if total > len(rows):
        yield f"and {total - len(rows)} more: --all"


def choose_metrics(rows: Sequence[RunRow]) -> list[str]:
    """The metrics that most runs have."""
    counts: dict[str, int] = {}
    for row in rows:
        for name in row.metrics:
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])[:_MOST_COLUMNS]


def choose_params(rows: Sequence[RunRow]) -> list[str]:
    """The parameters of scripts that differ between runs."""
    names = dict.fromkeys(name for row in rows for name in row.run.parameters)
    # The launcher's and the service's own parameters tell nothing about a script.
    own = [name for name in names if not name.startswith(("sagemaker_", "SageMaker.", "_"))]
    differing = [n for n in own if len({str(row.run.parameters.get(n)) for row in rows}) > 1]
    return (differing or own)[:_MOST_COLUMNS]


def render_run(row: RunRow) -> Iterator[str]:
    """One run in full."""
    run = row.run
    duration = row.duration_seconds
    yield row.name
    facts = {
        "run": f"{run.name} ({run.id})",
        "experiment": row.experiment,
        "status": f"{run.status or 'unknown'} {run.message}".strip(),
        "started": datetime.fromtimestamp(row.started).strftime("%Y-%m-%d %H:%M:%S"),
        "duration": "" if duration is None else show_elapsed(duration),
        "job": run.source,
        "tags": ", ".join(f"{key}={value}" for key, value in run.tags.items()),
    }
    yield from (f"  {name:<10}  {text}" for name, text in facts.items() if text)
    if run.parameters:
        yield "parameters"
        pairs = [(name, show_value(value)) for name, value in run.parameters.items()]
        yield from _indent(pairs)
    if row.metrics:
        yield "metrics"
        header = ("", "last", "min", "max", "values", "step")
        lines = [header, *(_metric_cells(summary) for summary in row.metrics.values())]
        yield from (f"  {line}" for line in make_table(lines, right=range(1, len(header))))
    for title, artifacts in (("inputs", run.inputs), ("outputs", run.outputs)):
        if artifacts:
            yield title
            yield from _indent([(name, each.uri) for name, each in artifacts.items()])


def _indent(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield from (f"  {line}" for line in make_table(pairs))


def _metric_cells(summary: Summary) -> tuple[str, ...]:
    numbers = (summary.last.value, summary.low, summary.high)
    cells = (show_value(number) for number in numbers)
    return (summary.name, *cells, str(summary.count), str(summary.last.step))


def show_value(value: Parameter | None) -> str:
    """A parameter or a number of a metric, short."""
    if value is None:
        return ""
    if isinstance(value, str):
        one_line = " ".join(value.split())
        return one_line if len(one_line) <= 2 * _LONGEST_CELL else f"{one_line[:47]}…"
    return f"{value:.6g}"


def _show_last(row: RunRow, metric: str) -> str:
    summary = row.metrics.get(metric)
    return "" if summary is None else show_value(summary.last.value)


def show_part(part: Mapping[str, Any]) -> str:
    """An input, the code or a checkpoint: where it is, how much it is, its hash."""
    texts = [str(part.get("uri", ""))]
    if "objects" in part:
        plural = "" if part["objects"] == 1 else "s"
        texts.append(f"{part['objects']} file{plural}, {show_size(part.get('bytes', 0))}")
    texts += [str(part[key]) for key in ("error", "hashed") if key in part]
    if digest := part.get("hash"):
        texts.append(str(digest)[:19])
    if commit := part.get("git_commit"):
        texts.append(f"git {commit[:12]}{' and changes' if part.get('git_dirty') else ''}")
    return "  ".join(text for text in texts if text)
