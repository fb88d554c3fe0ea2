"""`stoker tensorboard`: the curves and traces of a job, live."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from typing import Any, NoReturn

from stoker.cli.client.root_option import add_root_option, root_folder
from stoker.cli.tensorboard.platform import find_platform
from stoker.cli.tensorboard.program import (
    check_modules,
    choose_port,
    hand_over_keys,
    make_command,
    render_addresses,
)
from stoker.cli.tensorboard.sagemaker import describe_job
from stoker.cli.tensorboard.source import Source, find_source
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "tensorboard", help="show the curves and profiler traces of a job, live"
    )
    parser.add_argument("what", metavar="JOB|s3://…|DIR")
    parser.add_argument("--port", type=int, metavar="N", help="default: from 6006 on, 0: any")
    parser.add_argument("--dry-run", action="store_true", help="print the command and stop")
    add_root_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or become TensorBoard."""
    environ = read_environment()
    source = _find(args, environ)
    notes = check_modules(source)
    port = choose_port(args.port)
    command = make_command(source, port)
    print(f"tensorboard: {source.logdir}\n{render_addresses(port)}")
    for note in notes:
        print(f"  note: {note}")
    print(f"$ {shlex.join(command)}", flush=True)
    if not args.dry_run:
        _become(command, source, environ)
    return 0


def _find(args: argparse.Namespace, environ: Mapping[str, str]) -> Source:
    platform = find_platform(root_folder(args), is_asked_for=args.root is not None)

    def describe(job: str) -> Mapping[str, Any]:
        known = platform.describe(job) if platform else None
        if known is None and args.root is not None:
            raise UsageRefused(f"the platform has no job {job}", fix="`stoker status` lists them")
        return known or describe_job(job)

    source = find_source(args.what, describe=describe)
    if platform and source.is_on_s3 and platform.holds(source.logdir):
        return platform.adopt(source, environ)
    return source


def _become(command: list[str], source: Source, environ: Mapping[str, str]) -> NoReturn:
    kept = {k: v for k, v in environ.items() if k not in source.removed}
    changed = hand_over_keys({**kept, **source.variables})
    # Its signals, its exit code and its output are the user's own: nothing to add in between.
    os.execve(command[0], command, changed)  # noqa: S606 - an argv list, as everywhere
