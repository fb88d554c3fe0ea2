"""`stoker status`: one job of the local platform, or all of them."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from stoker.cli.client.display import (
    last_metrics,
    render_running,
    render_summary,
    show,
    stop_reason,
    to_json,
    without_traceback,
)
from stoker.cli.client.platform_api import Api, open_api
from stoker.cli.client.processing import ProcessingApi, open_api_of, render_processing
from stoker.cli.client.root_folder import command_line, root_folder
from stoker.cli.client.target import find_cloud_target
from stoker.cli.client.watch import CurrentStatus, Ended, age_seconds, is_final, watch
from stoker.cli.cloud.status import show_in_the_cloud
from stoker.machine.terminal import Terminal, make_table
from stoker.machine.units import show_elapsed
from stoker.platform.model.root import Root

_HEADER = ["JOB", "STATUS", "CREATED", "DURATION", "METRIC", "REASON"]
_SHOWN_JOBS = 50
_LONGEST_REASON = 100


def run(args: argparse.Namespace) -> int:
    """Print a table, or one job in full."""
    if target := find_cloud_target(args, args.job):
        return show_in_the_cloud(target, args)
    root = Root(root_folder(args))
    if args.job is None:
        _print_all(open_api(root), args)
        return 0
    api = open_api_of(root, args.job)
    if args.follow:
        events = (e for e in watch(api, args.job) if isinstance(e, CurrentStatus | Ended))
        show(events, Terminal(), hosts=1)
    description = api.describe(args.job)
    if args.json:
        print(to_json(api.find(args.job) if isinstance(api, ProcessingApi) else description))
    elif isinstance(api, ProcessingApi):
        print(*render_processing(description, root), sep="\n")
    elif is_final(description):
        print(*render_summary(description, root), sep="\n")
    else:
        print(*render_running(description, api.read_tail(args.job)), sep="\n")
    return 0


def _print_all(api: Api, args: argparse.Namespace) -> None:
    jobs = list(api.list_jobs())
    processing = list(ProcessingApi.over(api).list_jobs())
    if args.json:
        print(to_json([*jobs, *processing]))
        return
    jobs = sorted([*jobs, *processing], key=lambda job: job["CreationTime"], reverse=True)
    shown = jobs if args.all else jobs[:_SHOWN_JOBS]
    rows = [_row(api, job) for job in shown]
    lines = make_table([_HEADER, *rows], right=(3,))
    if sys.stdout.isatty():  # else a long reason would break the table
        lines = [line[: shutil.get_terminal_size().columns] for line in lines]
    print(*lines, sep="\n")
    if left := len(jobs) - len(shown):
        print(f"and {left} older ones: {command_line(args, 'status', '--all')}")


def _row(api: Api, job: Mapping[str, Any]) -> list[str]:
    is_processing = "ProcessingJobName" in job
    name = job["TrainingJobName"]
    job = job if is_processing else api.describe(name)
    when = job["CreationTime"].astimezone().strftime("%Y-%m-%d %H:%M:%S")
    status = job["TrainingJobStatus"] if is_final(job) else job["SecondaryStatus"]
    reason = without_traceback(job.get("FailureReason", ""))
    reason = reason or (job.get("ExitMessage", "") if is_processing else stop_reason(job))
    one_line = " ".join(reason.split())[:_LONGEST_REASON]
    metric = "(processing)" if is_processing else _main_metric(api, job)
    return [name, status, when, show_elapsed(age_seconds(job)), metric, one_line]


def _main_metric(api: Api, job: Mapping[str, Any]) -> str:
    """The first of the job's metric definitions, else of what `job.log` has logged."""
    if is_final(job):
        final = job.get("FinalMetricDataList", [])
        metrics = {each["MetricName"]: each["Value"] for each in final}
    else:
        metrics = last_metrics(job, api.read_tail(job["TrainingJobName"]))
    defined = job["AlgorithmSpecification"].get("MetricDefinitions", [])
    names = [*(each["Name"] for each in defined), *metrics]
    found = next((name for name in names if name in metrics), None)
    return f"{found} {metrics[found]:g}" if found else ""
