"""The arguments of `stoker stop`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.cloud_options import add_place_options
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("job")
    parser.add_argument("--follow", action="store_true", help="wait until it has ended")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_root_option(parser)
    add_place_options(parser)
