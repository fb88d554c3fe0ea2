"""`stoker local`: the platform of this machine, on which stock SageMaker code runs."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import time
from types import FrameType

from stoker.cli.client.root_option import add_root_option, command_line, root_folder
from stoker.cli.client.sagemaker import open_api
from stoker.cli.client.server import (
    ServerOptions,
    find_server,
    make_command,
    require_server,
    start_server,
    stop_server,
)
from stoker.cli.client.variables import find_conflicts, make_variables, render_variables
from stoker.cli.client.watch import is_final
from stoker.errors import HostError
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_duration, make_table
from stoker.platform.model.root import Root, ServerInfo, open_root, read_credentials

_STEP_SECONDS = 0.05
_NOT_RUNNING = 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("local", help="the platform of this machine: up, down, env")
    verbs = parser.add_subparsers(metavar="up|status|env|down", required=True)
    up = verbs.add_parser("up", help="start it; in the foreground unless --detach")
    up.add_argument("--port", type=_port, default=0, help="of the API (default: one that is free)")
    up.add_argument("--engine", choices=("auto", "docker", "process"), default="auto")
    up.add_argument("--slots", type=_at_least_one, help="how many jobs run side by side")
    up.add_argument("--detach", action="store_true", help="return when it is ready")
    up.set_defaults(run=run_up)
    status = verbs.add_parser("status", help="where it is and what it does; 1 if it is not up")
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=run_status)
    env = verbs.add_parser("env", help="print what a shell needs: eval $(stoker local env)")
    env.add_argument("--shell", choices=("sh", "fish", "json"), default="sh")
    env.set_defaults(run=run_env)
    down = verbs.add_parser("down", help="end it; returns when all of it is gone")
    down.set_defaults(run=run_down)
    for verb in (up, status, env, down):
        add_root_option(verb)


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
    root = Root(root_folder(args))
    server = require_server(root)
    environ = read_environment()
    variables = make_variables(root, server, read_credentials(root), environ)
    print(render_variables(variables, removed=find_conflicts(environ), shell=args.shell))
    return 0


def run_down(args: argparse.Namespace) -> int:
    """End the server."""
    root = Root(root_folder(args))
    going_on = _running_jobs(root) if find_server(root) else []
    if not stop_server(root):
        print(f"local: not up on {root.folder}")
        return 0
    print(f"local: down, {root.folder} is kept")
    if going_on:
        print(f"  running {', '.join(going_on)}: the next {_up(args)} takes over")
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
        "since": make_duration(time.time() - server.started),
        "jobs": ", ".join(_running_jobs(root)) or "none running",
        "log": str(root.server_log),
    }


def _running_jobs(root: Root) -> list[str]:
    try:
        jobs = list(open_api(root).list_jobs())
    except HostError:  # it is just ending
        return []
    return [job["TrainingJobName"] for job in jobs if not is_final(job)]


def _up(args: argparse.Namespace) -> str:
    return command_line(args, "local", "up", "--detach")


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**16:
        raise argparse.ArgumentTypeError("0 to 65535")
    return number


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
