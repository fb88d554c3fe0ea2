"""`stoker stop`: end a job of the local platform as StopTrainingJob does."""

from __future__ import annotations

import argparse
import json

from stoker.cli.client.display import show
from stoker.cli.client.root_folder import command_line, root_folder
from stoker.cli.client.sagemaker import open_api
from stoker.cli.client.watch import CurrentStatus, Ended, watch
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root


def run(args: argparse.Namespace) -> int:
    """Tell the job to stop; wait for it if asked."""
    api = open_api(Root(root_folder(args)))
    api.stop(args.job)
    if args.follow:
        # The log is for `stoker logs`; here only the status.
        events = (e for e in watch(api, args.job) if isinstance(e, CurrentStatus | Ended))
        show(events, Terminal(), hosts=1)
    status = api.describe(args.job)["TrainingJobStatus"]
    if args.json:
        print(json.dumps({"job": args.job, "status": status}))
    else:
        hint = f"; see {command_line(args, 'status', args.job)}" if status == "Stopping" else ""
        print(f"stop: {args.job} is {status}{hint}")
    return 0
