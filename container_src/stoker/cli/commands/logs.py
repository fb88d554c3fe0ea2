"""`stoker logs`: what a job of the local platform has said."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from stoker.cli.client.display import render_line
from stoker.cli.client.patience import Patience
from stoker.cli.client.platform_api import LogLine
from stoker.cli.client.target import Jobs, find_cloud_target, open_jobs, wait_for_training_job
from stoker.cli.client.watch import watch
from stoker.cloud.jobs import CloudJobs
from stoker.cloud.request import read_machines
from stoker.machine.terminal import Terminal


def run(args: argparse.Namespace) -> int:
    """Print what is there, or follow."""
    api, job = open_jobs(args, args.job)
    if target := find_cloud_target(args, args.job):
        job = wait_for_training_job(target, Terminal(sys.stderr))
    hosts = sum(read_machines(api.describe(job)).values())
    for line in _lines(api, job, follow=args.follow):
        text = json.dumps(asdict(line)) if args.json else render_line(line, hosts=hosts)
        print(text, flush=args.follow)
    return 0


def _lines(api: Jobs, job: str, *, follow: bool) -> Iterator[LogLine]:
    if not follow:
        return api.read_log(job, {})
    events = watch(api, job)
    if isinstance(api, CloudJobs):
        patience = Patience(Terminal(sys.stderr), is_local=api.account.is_local)
        api.on_lost = patience.on_lost
        events = watch(api, job, wait=patience.wait)
    return (event for event in events if isinstance(event, LogLine))
