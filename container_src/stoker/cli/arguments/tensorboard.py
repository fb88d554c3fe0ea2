"""The arguments of `stoker tensorboard`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.cloud_options import add_place_options
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("what", metavar="JOB|s3://…|DIR")
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help="port (default: the first free one from 6006; 0: any)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the command and stop")
    add_root_option(parser)
    add_place_options(parser)
