"""`stoker tensors`: what was saved of a run, as tables, curves and an animated view."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from stoker.debugging.step_tensors import MODES
from stoker.machine.extras import tensors_extra

_MODES = [mode.lower() for mode in MODES]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("tensors", help="look at the tensors that were saved of a run")
    verbs = parser.add_subparsers(metavar="ls|show|plot|view", required=True)
    listed = _add_verb(verbs, "ls", "what was saved")
    shown = _add_verb(verbs, "show", "statistics of tensors over their steps")
    shown.add_argument("--step", type=int, metavar="N", help="the values at this step")
    for verb in (listed, shown):
        verb.add_argument("--json", action="store_true", help="print JSON")
    plotted = _add_verb(verbs, "plot", "curves of tensors over their steps")
    plotted.add_argument("--html", type=Path, metavar="FILE", help="a page in place of text")
    _add_view_options(_add_verb(verbs, "view", "a network's tensors in 3-D, animated"))


def _add_view_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--html", type=Path, metavar="FILE", default=Path("tensors.html"), help="(tensors.html)"
    )
    parser.add_argument(
        "--sample", default="0", metavar="N|-1|all", help="of the batch; -1 is its mean (0)"
    )
    parser.add_argument(
        "--steps", type=int, default=10, metavar="N", help="so many, evenly spread (10)"
    )
    parser.add_argument("--label", default="", metavar="REGEX", help="the input image")
    parser.add_argument("--prediction", default="", metavar="REGEX", help="the network's output")


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("place", metavar="DIR|s3://…", help="where the tensors are")
    parser.add_argument("--name", default="", metavar="REGEX", help="tensors whose name it is in")
    parser.add_argument("--mode", type=str.lower, choices=_MODES, help="steps of this mode alone")
    parser.set_defaults(run=_runner(name))
    return parser


def _runner(verb: str) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        # Here, not above: NumPy is an extra, and would slow the start of every other command.
        with tensors_extra():
            from stoker.cli.tensors.verbs import VERBS
        VERBS[verb](args)
        return 0

    return run
