"""The arguments of `stoker report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments.cloud_options import PLACES
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("place", metavar="JOB|DIR|s3://…", help="a job, or the files of a profile")
    parser.add_argument("--compare", metavar="OTHER", help="an earlier one to compare it with")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        default=Path("profiler-report.html"),
        help="the page (profiler-report.html)",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="a trace as well (.json or .json.gz)"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--instance-type", metavar="TYPE", help="whose price counts")
    parser.add_argument("--region", metavar="REGION", help="of the job and of the price")
    parser.add_argument("--on", choices=PLACES, help="where the job is")
    add_root_option(parser)
