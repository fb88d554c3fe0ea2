"""One page of ListTrainingJobs from a store of many jobs.

Usage: python benchmarks/list_jobs.py [--jobs 10000] [--json]

The goal is 50 ms. The other column is the same call on a store that has only that page.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from figures import Figure, run, say
from stoker.platform.jobs.changes import completed, conclude, end, new_job
from stoker.platform.jobs.describe import list_jobs
from stoker.platform.jobs.store import Store

PAGE = 100
ROUNDS = 15
GOAL_MILLISECONDS = 50.0
_MINUTE = 60.0
_CALLS: Mapping[str, Mapping[str, Any]] = {
    "newest first": {"SortBy": "CreationTime", "SortOrder": "Descending"},
    "by name": {"SortBy": "Name", "SortOrder": "Ascending"},
    "of one status": {"StatusEquals": "Completed"},
    "whose name contains a text": {"NameContains": "job-9"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description="A page of ListTrainingJobs.")
    parser.add_argument("--jobs", type=int, default=10_000)
    return run(measure, parser, peer="50 ms")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure for each way to list."""
    with tempfile.TemporaryDirectory() as folder:
        say(f"{args.jobs} jobs are stored …")
        full = _fill(Path(folder) / "full.sqlite", args.jobs)
        small = _fill(Path(folder) / "small.sqlite", PAGE)
        figures = [_compare(name, params, full, small) for name, params in _CALLS.items()]
        full.close()
        small.close()
    return figures


def _fill(file: Path, count: int) -> Store:
    store = Store(file)
    request = {"HyperParameters": {f"p{i}": "1" for i in range(20)}, "RoleArn": "role"}
    for number in range(count):
        began = number * _MINUTE
        job = new_job(f"job-{number}", request, {}, began)
        store.add(end(conclude(job, completed(), "cleaning", began + 1), began + 2))
    return store


def _compare(name: str, params: Mapping[str, Any], full: Store, small: Store) -> Figure:
    calls = [partial(list_jobs, store, {"MaxResults": PAGE, **params}) for store in (full, small)]
    times: Sequence[list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            began = perf_counter()
            call()
            taken.append((perf_counter() - began) * 1000)
    ours, one_page = (median(taken) for taken in times)
    return Figure(
        name=f"{PAGE} jobs, {name}",
        ours=ours,
        peer=GOAL_MILLISECONDS,
        unit="ms",
        goal=1.0,
        others={f"store of {PAGE}": one_page},
    )


if __name__ == "__main__":
    raise SystemExit(main())
