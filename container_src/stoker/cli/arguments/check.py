"""The arguments of `stoker check`."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("images", nargs="+", metavar="IMAGE")
    parser.add_argument("--only", metavar="N,M", type=_numbers, help="run only these checks")
    parser.add_argument(
        "--skip", metavar="N,M", type=_numbers, default=set(), help="leave these out"
    )
    parser.add_argument("--jobs", type=_jobs, default=2, help="how many run in parallel (2)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument(
        "--junit", metavar="FILE", type=Path, help="write the results for a build server"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write a page that compares the images"
    )
    parser.add_argument(
        "--full", action="store_true", help="try grace times in full (100 s each), not in part"
    )
    parser.add_argument("--keep", action="store_true", help="do not remove the containers")


def _numbers(text: str) -> set[int]:
    return {int(part) for part in text.split(",") if part.strip()}


def _jobs(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError("from 1 to 64")
    return number
