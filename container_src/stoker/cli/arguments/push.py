"""The arguments of `stoker push`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments.build import FLAVORS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("--flavor", choices=FLAVORS, default="cpu", help="(default cpu)")
    parser.add_argument("--image", metavar="IMG", help="local image (default stoker:FLAVOR)")
    parser.add_argument(
        "--repository",
        metavar="NAME",
        required=True,
        help="name of the ECR repository, or its URI",
    )
    parser.add_argument("--region", metavar="R", help="AWS region (default: as configured)")
    parser.add_argument("--context", metavar="DIR", type=Path, help="the checkout of Stoker")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and stop")
