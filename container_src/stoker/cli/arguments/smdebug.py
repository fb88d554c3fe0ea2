"""The arguments of `stoker smdebug`."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(metavar="install", required=True)
    install = verbs.add_parser(
        "install", help="download it, fix it for this environment, install it"
    )
    where = install.add_mutually_exclusive_group()
    where.add_argument(
        "--python", metavar="PATH", help="Python of the environment (default: this one)"
    )
    where.add_argument(
        "--target", metavar="DIR", type=Path, help="install into a folder, without dependencies"
    )
    install.add_argument(
        "--wheel", metavar="FILE", type=Path, help="the published wheel of smdebug, if it is here"
    )
    install.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    install.set_defaults(run="run")
