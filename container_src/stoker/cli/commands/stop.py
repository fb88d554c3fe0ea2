"""`stoker stop`: end a job of the local platform as StopTrainingJob does."""

from __future__ import annotations

import argparse
import json
import sys

from stoker.cli.client.display import show
from stoker.cli.client.processing import open_api_of
from stoker.cli.client.root_folder import command_line, root_folder
from stoker.cli.client.target import CloudTarget, Jobs, find_cloud_target
from stoker.cli.client.watch import CurrentStatus, Ended, watch
from stoker.cli.cloud.follow import follow
from stoker.cloud.queue import terminate
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root


def run(args: argparse.Namespace) -> int:
    """Tell the job to stop; wait for it if asked."""
    if target := find_cloud_target(args, args.job):
        return _stop_in_the_cloud(target, args)
    api = open_api_of(Root(root_folder(args)), args.job)
    api.stop(args.job)
    if args.follow:
        # The log is for `stoker logs`; here only the status.
        events = (e for e in watch(api, args.job) if isinstance(e, CurrentStatus | Ended))
        show(events, Terminal(), hosts=1)
    _print_status(args, args.job, api)
    return 0


def _print_status(args: argparse.Namespace, job: str, api: Jobs) -> None:
    status = api.describe(job)["TrainingJobStatus"]
    if args.json:
        print(json.dumps({"job": job, "status": status}))
    else:
        hint = f"; see {command_line(args, 'status', job)}" if status == "Stopping" else ""
        print(f"stop: {job} is {status}{hint}")


def _stop_in_the_cloud(target: CloudTarget, args: argparse.Namespace) -> int:
    jobs, name = target.jobs, target.name
    if target.queue_job:
        terminate(jobs.account, target.queue_job)
        is_json = args.json
        print(json.dumps({"job": name}) if is_json else f"stop: {name} was taken out of its queue")
        return 0
    jobs.stop(name)
    if args.follow:
        follow(jobs, name, Terminal(sys.stderr), is_log_shown=False)
    _print_status(args, name, jobs)
    return 0
