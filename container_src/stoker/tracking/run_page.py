"""The page of runs: table, curves, scatter plot, parallel coordinates and lineage, offline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.pages.shell import make_page
from stoker.tracking.run_rows import RunRow
from stoker.tracking.series import Summary
from stoker.tracking.store import RunStore

MOST_RUNS = 2000
"""In the table; a page with more would not scroll."""

MOST_CURVES = 200
"""Runs whose curves are in the page: the first of the table."""

_MOST_BUCKETS = 150
_MOST_METRICS = 30
_MOST_TEXT = 200
_TEMPLATE = Path(__file__).with_suffix(".html")


def render_page(store: RunStore, rows: Sequence[RunRow], *, title: str = "Runs") -> str:
    """The whole page as HTML; the runs in their order."""
    shown = rows[:MOST_RUNS]
    facts = {
        "total": len(rows),
        "runs": [_make_run(row) for row in shown],
        "curves": [_read_curves(store, row) for row in shown[:MOST_CURVES]],
    }
    return make_page(_TEMPLATE, title=title, facts=facts)


def _make_run(row: RunRow) -> dict[str, Any]:
    run = row.run
    return {
        "name": row.name,
        "run": run.name,
        "experiment": row.experiment,
        "status": run.status or "",
        "message": run.message[:_MOST_TEXT],
        "started": row.started,
        "duration": row.duration_seconds,
        "params": {name: _shorten(value) for name, value in run.parameters.items()},
        "metrics": {
            name: _summarise(summary)
            for name, summary in list(row.metrics.items())[:_MOST_METRICS]
        },
        "tags": {name: value[:_MOST_TEXT] for name, value in run.tags.items()},
        "from": _list_origins(run.lineage),
        "made": [[name, artifact.uri] for name, artifact in run.outputs.items()],
    }


def _list_origins(lineage: Mapping[str, Any]) -> list[list[str]]:
    """Kind, address and hash of each thing the run was made from."""
    parts = [*lineage.get("inputs", {}).items()]
    parts += [("code", lineage.get("source_code")), ("checkpoint", lineage.get("resumed_from"))]
    found = [[name, _address(part), str(part.get("hash", ""))] for name, part in parts if part]
    image = lineage.get("image")
    if image:
        found.append(["image", str(image.get("name", "")), str(image.get("digest", ""))])
    if search := lineage.get("search"):
        found.append(["search", str(search), ""])
    return found


def _address(part: Mapping[str, Any]) -> str:
    commit = str(part.get("git_commit", ""))[:12]
    if not commit:
        return str(part.get("uri", ""))
    return f"git {commit}{' and changes' if part.get('git_dirty') else ''}"


def _read_curves(store: RunStore, row: RunRow) -> dict[str, list[list[float | None]]]:
    """Metric → first step, lowest and highest value of each bucket."""
    return {
        name: [
            [bucket.first_step, _finite(bucket.low), _finite(bucket.high)]
            # Lowest and highest: a mean would hide the peak that is looked for.
            for bucket in store.read_buckets(row.run.name, name, _MOST_BUCKETS)
        ]
        for name in list(row.metrics)[:_MOST_METRICS]
        if row.metrics[name].count > 1
    }


def _summarise(metric: Summary) -> list[float | str | None]:
    """Last, lowest and highest value, their number, and the last one as a text if JSON has none.

    A run that diverged must not look like one without values.
    """
    last = metric.last.value
    odd = "" if math.isfinite(last) else "NaN" if math.isnan(last) else str(last)
    return [_finite(last), _finite(metric.low), _finite(metric.high), metric.count, odd]


def _shorten(value: str | float) -> str | float | None:
    return value[:_MOST_TEXT] if isinstance(value, str) else _finite(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
