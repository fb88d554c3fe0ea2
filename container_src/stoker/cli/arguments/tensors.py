"""The arguments of `stoker tensors`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments.root_option import add_root_option

MODES = ("train", "eval", "predict", "global")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(metavar="ls|show|plot|view", required=True)
    listed = _add_verb(verbs, "ls", "what was saved")
    shown = _add_verb(verbs, "show", "statistics of tensors over their steps")
    shown.add_argument("--step", type=int, metavar="N", help="print the values at this step")
    for verb in (listed, shown):
        verb.add_argument("--json", action="store_true", help="print JSON")
    plotted = _add_verb(verbs, "plot", "curves of tensors over their steps")
    plotted.add_argument("--html", type=Path, metavar="FILE", help="write a page instead of text")
    _add_view_options(_add_verb(verbs, "view", "a network's tensors in 3-D, animated"))


def _add_view_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        default=Path("tensors.html"),
        help="the page (tensors.html)",
    )
    parser.add_argument(
        "--sample", default="0", metavar="N|-1|all", help="sample of the batch; -1 is the mean (0)"
    )
    parser.add_argument(
        "--steps", type=int, default=10, metavar="N", help="number of steps, evenly spaced (10)"
    )
    parser.add_argument("--label", default="", metavar="REGEX", help="name of the input image")
    parser.add_argument(
        "--prediction", default="", metavar="REGEX", help="name of the network's output"
    )


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("place", metavar="DIR|s3://…|JOB", help="where the tensors are")
    parser.add_argument(
        "--name", default="", metavar="REGEX", help="only tensors whose name matches"
    )
    parser.add_argument("--mode", type=str.lower, choices=MODES, help="only steps of this mode")
    add_root_option(parser)
    parser.set_defaults(run=f"run_{name}")
    return parser
