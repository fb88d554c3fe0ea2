"""The arguments of `stoker doctor`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("--image", default="stoker:cpu", metavar="IMG")
    parser.add_argument("--json", action="store_true")
    add_root_option(parser)
