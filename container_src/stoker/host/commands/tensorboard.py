"""`stoker tensorboard`: the curves and traces of a job, live."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import NoReturn

from stoker.host.environment import read_environment
from stoker.host.tensorboard.keys import hand_over_keys
from stoker.host.tensorboard.program import (
    check_modules,
    choose_port,
    make_command,
    render_addresses,
)
from stoker.host.tensorboard.sagemaker import describe_job
from stoker.host.tensorboard.source import Source, find_source


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "tensorboard", help="show the curves and profiler traces of a job, live"
    )
    parser.add_argument("what", metavar="JOB|s3://…|DIR")
    parser.add_argument("--port", type=int, metavar="N", help="default: from 6006 on, 0: any")
    parser.add_argument("--dry-run", action="store_true", help="print the command and stop")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or become TensorBoard."""
    source = find_source(args.what, describe=describe_job)
    notes = check_modules(source)
    port = choose_port(args.port)
    command = make_command(source, port)
    print(f"tensorboard: {source.logdir}\n{render_addresses(port)}")
    for note in notes:
        print(f"  note: {note}")
    print(f"$ {shlex.join(command)}", flush=True)
    if not args.dry_run:
        _become(command, source)
    return 0


def _become(command: list[str], source: Source) -> NoReturn:
    kept = {k: v for k, v in read_environment().items() if k not in source.removed}
    environ = hand_over_keys({**kept, **source.variables})
    # Its signals, its exit code and its output are the user's own: nothing to add in between.
    os.execve(command[0], command, environ)  # noqa: S606 - an argv list, as everywhere
