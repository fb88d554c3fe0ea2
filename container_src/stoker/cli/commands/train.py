"""`stoker train`: submit a script to the platform of this machine and watch it to its end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from stoker.cli.client.display import render_summary, show, to_json
from stoker.cli.client.interrupts import Interrupts
from stoker.cli.client.platform_api import Api, open_api
from stoker.cli.client.preflight import require_accepted, require_disk, require_image
from stoker.cli.client.root_folder import command_line, root_folder
from stoker.cli.client.server import ServerOptions, find_server, start_server
from stoker.cli.client.submission import make_submission
from stoker.cli.client.training_spec import make_spec
from stoker.cli.client.watch import Event, watch
from stoker.cli.cloud.place import require_place
from stoker.cli.commands.local import require_engine_asked_for
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root, ServerInfo, open_root

_EXIT_CODES = {"Completed": 0}
_JOB_FAILED = 1
_INTERRUPTED = 130  # as a shell reports it: 128 + SIGINT


def run(args: argparse.Namespace) -> int:
    """Make the request; print it or carry it out."""
    require_place(args)
    if args.on == "sagemaker":
        # Here, not above: a job of this machine need not wait for what it does not use.
        from stoker.cli.cloud.run import run_training

        return run_training(args)
    spec = make_spec(args)
    submission = make_submission(spec)
    require_accepted(submission.request)
    folder = root_folder(args)
    require_disk(folder, submission.source.size_bytes)
    running = find_server(Root(folder))
    if args.dry_run or not running:  # a platform that runs looks for itself
        require_image(spec.image, running.engine if running else args.engine)
    if args.dry_run:
        print(json.dumps(submission.request, indent=1))
        return 0
    root = open_root(folder)
    terminal = open_terminal(args)
    server = ensure_server(root, args, terminal)
    terminal.line(f"train: {spec.name}, engine: {server.engine} ({server.reason})")
    for text in submission.source.explain():
        terminal.line(f"  {text}")
    api = open_api(root)
    api.send_code(submission, show=terminal.progress)
    terminal.status("")
    return create_and_watch(api, submission.request, root=root, args=args, terminal=terminal)


def open_terminal(args: argparse.Namespace) -> Terminal:
    """Where the job is shown: with --json stdout has nothing but the answer."""
    return Terminal(sys.stderr if args.json else sys.stdout)


def ensure_server(root: Root, args: argparse.Namespace, terminal: Terminal) -> ServerInfo:
    """The platform's server, started if none is up."""
    server = find_server(root)
    if server is not None:
        require_engine_asked_for(server, args.engine, root)
        return server
    server = start_server(root, ServerOptions(engine=args.engine))
    terminal.line(f"train: started the platform at {server.endpoint}, folder {root.folder}")
    down = command_line(args, "local", "down")
    terminal.line(f"  it stays up for the next job; end it: {down}")
    return server


def create_and_watch(
    api: Api,
    request: Mapping[str, Any],
    *,
    root: Root,
    args: argparse.Namespace,
    terminal: Terminal,
) -> int:
    """Create a job and watch it to its end, unless it is to be left alone (--detach).

    Returns:
        The exit code of the command.
    """
    job = str(request["TrainingJobName"])
    # From here on Ctrl-C stops the job: one that comes while it is created must not leave it.
    with Interrupts() as interrupts:
        api.create(request)
        if args.detach and not interrupts.count:
            terminal.line(f"train: {job} is submitted")
            _say_how_to_continue(job, terminal, args)
            code = 0
        else:
            code = _watch_to_the_end(api, job, interrupts, root=root, args=args, terminal=terminal)
    if args.json:
        print(to_json(api.describe(job)))
    return code


def watch_local_job(
    api: Api, job: str, *, root: Root, args: argparse.Namespace, terminal: Terminal
) -> int:
    """Watch a job of the local platform to its end.

    Returns:
        The exit code of the command.
    """
    with Interrupts() as interrupts:
        code = _watch_to_the_end(api, job, interrupts, root=root, args=args, terminal=terminal)
    if args.json:
        print(to_json(api.describe(job)))
    return code


def _say_how_to_continue(job: str, terminal: Terminal, args: argparse.Namespace) -> None:
    terminal.line(f"  watch   {command_line(args, 'logs', job, '--follow')}")
    terminal.line(f"  status  {command_line(args, 'status', job)}")
    terminal.line(f"  stop    {command_line(args, 'stop', job)}")


def _watch_to_the_end(
    api: Api,
    job: str,
    interrupts: Interrupts,
    *,
    root: Root,
    args: argparse.Namespace,
    terminal: Terminal,
) -> int:
    try:
        resources = api.describe(job)["ResourceConfig"]
        hosts = int(resources.get("InstanceCount", 2))  # with groups: several
        events = _stop_when_asked(watch(api, job), api, job, interrupts, terminal)
        description = show(events, terminal, hosts=hosts)
    except KeyboardInterrupt:
        # Two in quick succession: the first has not been passed on yet.
        with suppress(UsageRefused):
            api.stop(job)
        terminal.status("")
        terminal.line(f"train: {job} was asked to stop and continues without this command")
        _say_how_to_continue(job, terminal, args)
        return _INTERRUPTED
    except HostError:
        terminal.status("")
        terminal.line(f"train: {job} is no longer watched, but a running script continues")
        terminal.line(f"  resume  {command_line(args, 'local', 'up', '--detach')}")
        _say_how_to_continue(job, terminal, args)
        raise
    terminal.line()
    summary = render_summary(description, root, is_log_shown=True)
    for line in [f"train: {_verdict(description)}", *summary]:
        terminal.line(line)
    if interrupts.count:
        return _INTERRUPTED
    return _EXIT_CODES.get(description["TrainingJobStatus"], _JOB_FAILED)


def _stop_when_asked(
    events: Iterator[Event], api: Api, job: str, interrupts: Interrupts, terminal: Terminal
) -> Iterator[Event]:
    is_told = False
    full_disk = ""
    for event in events:
        if not full_disk and (full_disk := api.find_full_disk()):
            terminal.line(f"train: {full_disk}")
        if interrupts.count and not is_told:
            is_told = True
            with suppress(UsageRefused):  # it has just ended by itself
                api.stop(job)
            terminal.line("train: stopping; the script has 120 s to save (Ctrl-C again: leave it)")
        yield event


def _verdict(description: Mapping[str, Any]) -> str:
    return str(description["TrainingJobStatus"]).lower()
