"""The arguments of `stoker local`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(metavar="up|status|env|prune|down", required=True)
    up = verbs.add_parser("up", help="start it; in the foreground unless --detach")
    up.add_argument("--port", type=_port, default=0, help="port of the API (default: a free one)")
    up.add_argument(
        "--engine",
        choices=("auto", "docker", "process"),
        default="auto",
        help="containers, or processes of this machine (default: containers if Docker answers)",
    )
    up.add_argument("--slots", type=_at_least_one, help="how many jobs run in parallel")
    up.add_argument("--detach", action="store_true", help="return when it is ready")
    up.set_defaults(run="run_up")
    status = verbs.add_parser("status", help="its address and jobs; exit code 1 if it is not up")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run="run_status")
    env = verbs.add_parser("env", help="print what a shell needs: eval $(stoker local env)")
    env.add_argument("--shell", choices=("sh", "fish", "json"), default="sh", help="(default sh)")
    env.add_argument("--undo", action="store_true", help="what brings the shell back from it")
    env.set_defaults(run="run_env")
    prune = verbs.add_parser("prune", help="remove ended jobs with their logs and results")
    prune.add_argument("--keep", type=int, metavar="N", help="the newest N jobs stay")
    prune.add_argument(
        "--older", metavar="TIME", help="only jobs that ended before: 12h, 7d (default 7d)"
    )
    prune.add_argument("--dry-run", action="store_true", help="show it and remove nothing")
    prune.set_defaults(run="run_prune")
    down = verbs.add_parser("down", help="end it; returns when all its processes have ended")
    down.set_defaults(run="run_down")
    for verb in (up, status, env, prune, down):
        add_root_option(verb)


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
