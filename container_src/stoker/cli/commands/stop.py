"""`stoker stop`: end a job of the local platform as StopTrainingJob does."""

from __future__ import annotations

import argparse
import json

from stoker.cli.client.display import show
from stoker.cli.client.root_option import add_root_option, command_line, root_folder
from stoker.cli.client.sagemaker import open_api
from stoker.cli.client.watch import Ended, Progress, watch
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("stop", help="stop a job on the local platform")
    parser.add_argument("job")
    parser.add_argument("--follow", action="store_true", help="wait until it has ended")
    parser.add_argument("--json", action="store_true")
    add_root_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tell the job to stop; wait for it if asked."""
    api = open_api(Root(root_folder(args)))
    api.stop(args.job)
    if args.follow:
        # The log is for `stoker logs`; here only where it stands.
        events = (e for e in watch(api, args.job) if isinstance(e, Progress | Ended))
        show(events, Terminal(), hosts=1)
    status = api.describe(args.job)["TrainingJobStatus"]
    if args.json:
        print(json.dumps({"job": args.job, "status": status}))
    else:
        hint = f"; see {command_line(args, 'status', args.job)}" if status == "Stopping" else ""
        print(f"stop: {args.job} is {status}{hint}")
    return 0
