"""`stoker tensorboard`: the curves and traces of a job, live."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.target import find_cloud_target
from stoker.cli.tensorboard.platform import find_platform
from stoker.cli.tensorboard.program import (
    check_modules,
    choose_port,
    hand_over_keys,
    make_command,
    render_addresses,
)
from stoker.cli.tensorboard.source import Source, find_source
from stoker.cloud.account import Account
from stoker.cloud.jobs import CloudJobs
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import Root

_SHOWN = ("*tfevents*", "*.pt.trace.json*")


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or become TensorBoard."""
    environ = read_environment()
    source = _find(args, environ)
    notes = [*check_modules(source), *_note_nothing(source, Root(root_folder(args)))]
    port = choose_port(args.port)
    command = make_command(source, port)
    print(f"tensorboard: {source.logdir}\n{render_addresses(port)}")
    for note in notes:
        print(f"  note: {note}")
    print(f"$ {shlex.join(command)}", flush=True)
    if not args.dry_run:
        _become(command, source, environ)
    return 0


def _note_nothing(source: Source, root: Root) -> Iterator[str]:
    """TensorBoard itself shows an empty page and says nothing."""
    is_here = not source.is_on_s3 or source.variables
    place = source.logdir.removeprefix("s3://")
    folder = root.s3_dir / place if source.is_on_s3 else Path(place)
    if is_here and not any(next(folder.rglob(name), None) for name in _SHOWN):
        yield "there is nothing for TensorBoard yet; what comes is shown within half a minute"


def _find(args: argparse.Namespace, environ: Mapping[str, str]) -> Source:
    if target := find_cloud_target(args, args.what):
        return find_source(target.training_job, describe=target.jobs.describe)
    platform = find_platform(root_folder(args), is_asked_for=args.root is not None)

    def describe(job: str) -> Mapping[str, Any]:
        known = platform.describe(job) if platform else None
        if known is None and args.root is not None:
            raise UsageRefused(f"the platform has no job {job}", fix="`stoker status` lists them")
        return known or _describe_in_the_cloud(job)

    source = find_source(args.what, describe=describe)
    if platform and source.is_on_s3 and platform.holds(source.logdir):
        return platform.adopt(source, environ)
    return source


def _describe_in_the_cloud(job: str) -> Mapping[str, Any]:
    try:
        return CloudJobs(Account()).describe(job)
    except UsageRefused as error:
        text = f"{job} is not a folder here, nor a job of SageMaker: {error.message}"
        raise UsageRefused(text, fix=error.fix) from error


def _become(command: list[str], source: Source, environ: Mapping[str, str]) -> NoReturn:
    kept = {k: v for k, v in environ.items() if k not in source.removed}
    changed = hand_over_keys({**kept, **source.variables})
    # Its signals, its exit code and its output are the user's own: nothing to add in between.
    os.execve(command[0], command, changed)  # noqa: S606 - an argv list, as everywhere
