"""`stoker logs`: what a job of the local platform has said."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from stoker.cli.client.display import render_line
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.sagemaker import Api, LogLine, open_api
from stoker.cli.client.watch import watch
from stoker.platform.model.root import Root


def run(args: argparse.Namespace) -> int:
    """Print what is there, or follow."""
    api = open_api(Root(root_folder(args)))
    description = api.describe(args.job)
    hosts = int(description["ResourceConfig"].get("InstanceCount", 2))  # groups: several
    for line in _lines(api, args.job, follow=args.follow):
        text = json.dumps(asdict(line)) if args.json else render_line(line, hosts=hosts)
        print(text, flush=args.follow)
    return 0


def _lines(api: Api, job: str, *, follow: bool) -> Iterator[LogLine]:
    if not follow:
        return api.read_log(job, {})
    return (event for event in watch(api, job) if isinstance(event, LogLine))
