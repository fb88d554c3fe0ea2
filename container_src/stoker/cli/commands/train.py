"""`stoker train`: submit a script to the platform of this machine and watch it to its end."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from stoker.cli.client.display import render_summary, show
from stoker.cli.client.root_option import add_root_option, command_line, root_folder
from stoker.cli.client.sagemaker import Api, open_api
from stoker.cli.client.server import ServerOptions, find_server, start_server
from stoker.cli.client.submission import make_submission
from stoker.cli.client.training_spec import make_spec
from stoker.cli.client.watch import Event, watch
from stoker.cli.commands.local import require_engine_asked_for
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root, ServerInfo, open_root

_EXIT_CODES = {"Completed": 0}
_JOB_FAILED = 1
_INTERRUPTED = 130


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("train", help="run a training script on the local platform")
    parser.add_argument("script", type=Path, help="the entry point, such as src/train.py")
    parser.add_argument("--source-dir", type=Path, help="folder of the code (default: script's)")
    parser.add_argument("--channel", action="append", default=[], metavar="NAME=FOLDER|s3://…")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--metric", action="append", default=[], metavar="NAME=REGEX")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the job"
    )
    parser.add_argument("--instances", type=int, default=1, metavar="N", help="how many hosts")
    parser.add_argument(
        "--spot", metavar="SPEC", help="interrupt it: after=30s | every=2m,times=3 | trace=FILE"
    )
    parser.add_argument("--image", default="stoker:cpu", metavar="IMG")
    parser.add_argument("--engine", choices=("auto", "docker", "process"), default="auto")
    parser.add_argument("--name", help="of the job (default: from the script and the time)")
    parser.add_argument("--dry-run", action="store_true", help="print the request and stop")
    add_root_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the request; print it or carry it out."""
    submission = make_submission(make_spec(args))
    if args.dry_run:
        print(json.dumps(submission.request, indent=1))
        return 0
    root = open_root(root_folder(args))
    server = _ensure_server(root, args)
    job = str(submission.request["TrainingJobName"])
    print(f"train: {job}, engine: {server.engine} ({server.reason})", flush=True)
    api = open_api(root)
    api.submit(submission)
    return _watch_to_the_end(api, job, root=root, args=args)


def _ensure_server(root: Root, args: argparse.Namespace) -> ServerInfo:
    server = find_server(root)
    if server is not None:
        require_engine_asked_for(server, args.engine, root)
        return server
    server = start_server(root, ServerOptions(engine=args.engine))
    print(f"train: started the platform at {server.endpoint}, folder {root.folder}")
    print(f"  it stays up for the next job; end it: {command_line(args, 'local', 'down')}")
    return server


def _watch_to_the_end(api: Api, job: str, *, root: Root, args: argparse.Namespace) -> int:
    terminal = Terminal()
    with Interrupts() as interrupts:
        events = _stop_when_asked(watch(api, job), api, job, interrupts, terminal)
        try:
            description = show(events, terminal, hosts=args.instances)
        except KeyboardInterrupt:
            terminal.status("")
            terminal.line(f"train: {job} is left to itself, on the platform")
            terminal.line(f"  watch   {command_line(args, 'logs', job, '--follow')}")
            terminal.line(f"  stop    {command_line(args, 'stop', job)}")
            return _INTERRUPTED
    terminal.line()
    for line in [f"train: {_verdict(description)}", *render_summary(description, root)]:
        terminal.line(line)
    if interrupts.count:
        return _INTERRUPTED
    return _EXIT_CODES.get(description["TrainingJobStatus"], _JOB_FAILED)


def _stop_when_asked(
    events: Iterator[Event], api: Api, job: str, interrupts: Interrupts, terminal: Terminal
) -> Iterator[Event]:
    is_told = False
    for event in events:
        if interrupts.count and not is_told:
            is_told = True
            with suppress(UsageRefused):  # it has just ended by itself
                api.stop(job)
            terminal.line("train: stopping; the script has 120 s to save (Ctrl-C again: leave it)")
        yield event


def _verdict(description: Mapping[str, Any]) -> str:
    return str(description["TrainingJobStatus"]).lower()


class Interrupts:
    """While entered, counts SIGINT; from the second on KeyboardInterrupt is raised as usual."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
