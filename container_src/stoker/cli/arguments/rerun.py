"""The arguments of `stoker rerun`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.root_option import add_root_option
from stoker.cli.arguments.train import add_job_options, add_parameter_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("job", help="a job of the platform; its code and data are used again")
    add_parameter_options(parser)
    add_job_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the request and stop")
    add_root_option(parser)
