"""The arguments of `stoker status`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.cloud_options import add_place_options
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("job", nargs="?", help="name of a job (default: list all)")
    parser.add_argument("--follow", action="store_true", help="wait until the job has ended")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--all", action="store_true", help="list all jobs, not the newest 50")
    add_root_option(parser)
    add_place_options(parser)
