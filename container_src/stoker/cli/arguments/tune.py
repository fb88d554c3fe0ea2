"""The arguments of `stoker tune`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments import train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts: all of `stoker train`, and what is searched."""
    train.add_arguments(parser)
    parser.add_argument("job", nargs="?", help="of show, stop and best")
    search = parser.add_argument_group("the search")
    search.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="NAME=LOW..HIGH[:log]",
        help="a number to search",
    )
    search.add_argument(
        "--choice", action="append", default=[], metavar="NAME=A,B,…", help="a word to search"
    )
    search.add_argument("--maximize", metavar="NAME[=REGEX]", help="without REGEX: of job.log")
    search.add_argument("--minimize", metavar="NAME[=REGEX]", help="likewise")
    search.add_argument("--trials", type=int, metavar="N", help="how many (default 10)")
    search.add_argument("--parallel", type=int, default=1, metavar="N", help="(default 1)")
    search.add_argument(
        "--strategy",
        choices=("bayesian", "random", "grid", "hyperband"),
        default="bayesian",
        help="(default bayesian)",
    )
    search.add_argument("--early-stop", action="store_true", help="stop what is below the median")
    search.add_argument("--target", type=float, metavar="X", help="end the search at this value")
    search.add_argument("--min-epochs", type=int, metavar="N", help="of hyperband (default 1)")
    search.add_argument("--max-epochs", type=int, metavar="N", help="of hyperband")
    search.add_argument("--no-resume", action="store_true", help="hyperband stops, never pauses")
    search.add_argument("--seed", type=int, metavar="N", help="the same search again")
    search.add_argument("--csv", action="store_true", help="print the trials as CSV")
    search.add_argument("--page", type=Path, metavar="FILE", help="write the search as HTML")
    parser.usage = (
        "stoker tune [options] SCRIPT --range … --maximize … [-- --NAME VALUE …]\n"
        "       stoker tune show|stop|best JOB [--json] [--csv] [--page FILE]"
    )
