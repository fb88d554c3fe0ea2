"""`stoker status`: one job of the local platform, or all of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoker.cli.client.display import render_summary, show
from stoker.cli.client.root_option import add_root_option, root_folder
from stoker.cli.client.sagemaker import Api, open_api
from stoker.cli.client.watch import Ended, Progress, watch
from stoker.machine.terminal import Terminal, make_table
from stoker.platform.model.root import Root


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("status", help="jobs on the local platform, or one of them")
    parser.add_argument("job", nargs="?", help="all of them when left out")
    parser.add_argument("--follow", action="store_true", help="wait until the job has ended")
    parser.add_argument("--json", action="store_true")
    add_root_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a table, or one job in full."""
    root = Root(root_folder(args))
    api = open_api(root)
    if args.job is None:
        _print_all(api, as_json=args.json)
        return 0
    if args.follow:
        events = (e for e in watch(api, args.job) if isinstance(e, Progress | Ended))
        show(events, Terminal(), hosts=1)
    description = api.describe(args.job)
    if args.json:
        print(_to_json(description))
    else:
        print(*render_summary(description, root), sep="\n")
    return 0


def _print_all(api: Api, *, as_json: bool) -> None:
    jobs = list(api.list_jobs())
    if as_json:
        print(_to_json(jobs))
        return
    rows = [_row(job) for job in jobs]
    print(*make_table([["JOB", "STATUS", "CREATED"], *rows]), sep="\n")


def _row(job: Mapping[str, Any]) -> list[str]:
    created: datetime = job["CreationTime"]
    when = created.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return [job["TrainingJobName"], job["TrainingJobStatus"], when]


def _to_json(value: object) -> str:
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name != "ResponseMetadata"}
    return json.dumps(value, indent=1, default=datetime.isoformat)
