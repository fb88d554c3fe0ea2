"""The arguments of `stoker metric-definitions`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.contract.paths import LAPTOP_ROOT

LAPTOP_FILE = Path(LAPTOP_ROOT, "output/data/stoker/metrics.jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="as in job.log: train/loss")
    parser.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        type=Path,
        help=f"take the names of a metrics.jsonl (default {LAPTOP_FILE}, if it is there)",
    )
    parser.add_argument("--json", action="store_true", help="print the API's form")
