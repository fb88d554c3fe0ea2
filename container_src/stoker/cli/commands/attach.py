"""`stoker attach`: watch a job that runs already, as `stoker train` does."""

from __future__ import annotations

import argparse
import sys

from stoker.cli.client.platform_api import open_api
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.target import find_cloud_target, wait_for_training_job
from stoker.cli.cloud.follow import watch_to_the_end
from stoker.cli.commands.train import watch_local_job
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root


def run(args: argparse.Namespace) -> int:
    """Show its log from the beginning, and how it ends."""
    terminal = Terminal(sys.stderr if args.json else sys.stdout)
    if target := find_cloud_target(args, args.job):
        name = wait_for_training_job(target, terminal)
        return watch_to_the_end(target.jobs, name, terminal, args)
    root = Root(root_folder(args))
    return watch_local_job(open_api(root), args.job, root=root, args=args, terminal=terminal)
