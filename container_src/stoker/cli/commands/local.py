"""`stoker local`: the platform of this machine, on which stock SageMaker code runs."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from stoker.cli.client.platform_api import open_api
from stoker.cli.client.processing import ProcessingApi
from stoker.cli.client.pruning import plan_pruning
from stoker.cli.client.root_folder import command_line, root_folder
from stoker.cli.client.server import (
    ServerOptions,
    find_server,
    make_command,
    require_server,
    start_server,
    stop_server,
)
from stoker.cli.client.variables import (
    find_conflicts,
    make_undo,
    make_variables,
    render_variables,
)
from stoker.cli.client.watch import is_final
from stoker.errors import HostError
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_table
from stoker.machine.units import read_seconds, show_elapsed, show_size
from stoker.platform.model.root import Root, ServerInfo, open_root, read_credentials

_STEP_SECONDS = 0.05
_NOT_RUNNING = 1
_UNDO = ("local", "env", "--undo")
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system


def run_up(args: argparse.Namespace) -> int:
    """Start the server, or say that it runs."""
    root = open_root(root_folder(args))
    options = ServerOptions(engine=args.engine, port=args.port, slots=args.slots)
    server = find_server(root)
    if server is not None:
        require_engine_asked_for(server, args.engine, root)
        print(f"local: already up at {server.endpoint}, engine: {server.engine}")
        return 0
    if not args.detach:
        return _serve_here(root, options, args)
    server = start_server(root, options)
    print(f"local: up at {server.endpoint}, engine: {server.engine} ({server.reason})")
    _hint(args)
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Say where the platform is."""
    root = Root(root_folder(args))
    server = find_server(root)
    if args.json:
        print(json.dumps(_status(root, server), indent=1))
    elif server is None:
        print(f"local: not up on {root.folder}\n  start   {_up(args)}")
    else:
        shown = {name: value for name, value in _status(root, server).items() if name != "up"}
        rows = [[f"  {name}", str(value)] for name, value in shown.items()]
        print("local: up", *make_table(rows), sep="\n")
    return 0 if server else _NOT_RUNNING


def run_env(args: argparse.Namespace) -> int:
    """Print the lines to evaluate."""
    if args.undo:
        kept, removed = make_undo(read_environment())
        print(render_variables(kept, removed=removed, shell=args.shell))
        return 0
    root = Root(root_folder(args))
    server = require_server(root)
    environ = read_environment()
    variables = make_variables(root, server, read_credentials(root), environ)
    print(render_variables(variables, removed=find_conflicts(environ), shell=args.shell))
    return 0


def run_prune(args: argparse.Namespace) -> int:
    """Remove ended jobs, and code that no job uses."""
    # --keep alone says enough: everything beyond it goes.
    older = args.older or ("7d" if args.keep is None else "0s")
    api = open_api(Root(root_folder(args)))
    removals = plan_pruning(api, keep=max(0, args.keep or 0), older_seconds=read_seconds(older))
    rows = [[f"  {each.job or 'unused code'}", show_size(each.size_bytes)] for each in removals]
    print(*make_table(rows), sep="\n", end="\n" if rows else "")
    if not args.dry_run:
        # All objects first: while the jobs are there, an interrupted `prune` can be run again, and
        # to remove a job needs space, which a full disk has only then.
        for removal in removals:
            api.delete_objects(removal.keys)
        for removal in removals:
            if removal.job:
                removal.api.delete_job(removal.job)
    freed = show_size(sum(each.size_bytes for each in removals))
    count = sum(bool(each.job) for each in removals)
    verb = "would be removed" if args.dry_run else "removed"
    print(f"local: {count} job{'s' * (count != 1)} {verb}, {freed} of objects")
    return 0


def run_down(args: argparse.Namespace) -> int:
    """End the server."""
    root = Root(root_folder(args))
    # While the server is there to answer.
    server = find_server(root)
    going_on = _running_jobs(root) if server else []
    if not stop_server(root):
        print(f"local: not up on {root.folder}")
        return 0
    print(f"local: down, {root.folder} is kept")
    if going_on:
        print(f"  running {', '.join(going_on)}: the next {_up(args)} takes over")
    if server and read_environment().get("AWS_ENDPOINT_URL") == server.endpoint:
        print(f"  this shell still asks the platform: eval $({command_line(args, *_UNDO)})")
    return 0


def require_engine_asked_for(server: ServerInfo, asked: str, root: Root) -> None:
    """A server that runs has its engine for good.

    Raises:
        UsageRefused: another engine was asked for.
    """
    if asked not in ("auto", server.engine):
        raise UsageRefused(
            f"the platform on {root.folder} is up with the engine {server.engine}, not {asked}",
            fix="end it with `stoker local down`, or use another folder: --root DIR",
        )


def _serve_here(root: Root, options: ServerOptions, args: argparse.Namespace) -> int:
    """The server as a child on this terminal: Ctrl-C reaches it, and we wait for its end."""
    with subprocess.Popen(make_command(root, options)) as process:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            process.send_signal(number)

        before = {
            # The terminal sends Ctrl-C to the whole group, so the child receives its own; SIGTERM
            # comes to us alone.
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
        }
        try:
            while process.poll() is None and find_server(root) is None:
                time.sleep(_STEP_SECONDS)
            if process.poll() is None:
                _hint(args)  # the server itself says where it is
            return process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _hint(args: argparse.Namespace) -> None:
    print(f"  use it  eval $({command_line(args, 'local', 'env')})")
    print(f"  end it  {command_line(args, 'local', 'down')}", flush=True)


def _status(root: Root, server: ServerInfo | None) -> dict[str, object]:
    if server is None:
        return {"up": False, "root": str(root.folder)}
    return {
        "up": True,
        "root": str(root.folder),
        "endpoint": server.endpoint,
        "engine": server.engine,
        "reason": server.reason,
        "pid": server.pid,
        "since": show_elapsed(time.time() - server.started),
        "jobs": ", ".join(_running_jobs(root)) or "none running",
        "objects": show_size(_measure(root.s3_dir)),
        "logs": show_size(_measure(root.logs_dir)),
        "working": show_size(_measure(root.jobs_dir)),
        "kept": show_size(_measure(root.kept)),
        "log": str(root.server_log),
    }


def _measure(folder: Path) -> int:
    """The bytes that its files take; what vanishes meanwhile counts nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * _BLOCK_BYTES
    return total


def _running_jobs(root: Root) -> list[str]:
    try:
        api = open_api(root)
        jobs = [*api.list_jobs(), *ProcessingApi.over(api).list_jobs()]
    except HostError:  # it is just ending
        return []
    return [job["TrainingJobName"] for job in jobs if not is_final(job)]


def _up(args: argparse.Namespace) -> str:
    return command_line(args, "local", "up", "--detach")
