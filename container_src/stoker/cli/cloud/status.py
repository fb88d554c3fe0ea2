"""`stoker status` of jobs on SageMaker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from stoker.cli.client.display import to_json
from stoker.cli.client.target import CloudTarget, wait_for_training_job
from stoker.cli.cloud.follow import follow
from stoker.cli.cloud.job_summary import render_job
from stoker.cloud.queue import read_queued_job
from stoker.machine.terminal import Terminal, make_table
from stoker.machine.units import show_elapsed

_SHOWN_JOBS = 50
_HEADER = ("JOB", "STATUS", "CREATED", "DURATION")


def show_in_the_cloud(target: CloudTarget, args: argparse.Namespace) -> int:
    """One job in full, or the newest of the region."""
    jobs, name = target.jobs, target.name
    if not name:
        found = list(islice(jobs.list_jobs(), None if args.all else _SHOWN_JOBS))
        if args.json:
            print(to_json(found))
        else:
            print(*make_table([_HEADER, *_rows(found)], right=(3,)), sep="\n")
        return 0
    if target.queue_job and args.follow:
        name = wait_for_training_job(target, Terminal(sys.stderr))
    elif target.queue_job:
        queued = read_queued_job(jobs, target.queue_job)
        if queued.training_job is None:
            where = {"job": name, "queue": f"{queued.status} {queued.reason}".strip()}
            lines = [f"  {key:<7} {text}" for key, text in where.items()]
            print(*([to_json(where)] if args.json else lines), sep="\n")
            return 0
        name = queued.training_job
    if args.follow:
        follow(jobs, name, Terminal(), is_log_shown=False)
    description = jobs.describe(name)
    if args.json:
        print(to_json(description))
        return 0
    print(*render_job(description, jobs.account.region, jobs.read_tail(name)), sep="\n")
    return 0


def _rows(jobs: list[dict[str, object]]) -> Iterator[list[str]]:
    for job in jobs:
        created, ended = job["CreationTime"], job.get("TrainingEndTime") or datetime.now(UTC)
        if isinstance(created, datetime) and isinstance(ended, datetime):
            seconds = (ended - created).total_seconds()
            when = created.astimezone().strftime("%Y-%m-%d %H:%M:%S")
            yield [
                str(job["TrainingJobName"]),
                str(job["TrainingJobStatus"]),
                when,
                show_elapsed(seconds),
            ]
