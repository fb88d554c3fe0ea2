"""The arguments of `stoker build`."""

from __future__ import annotations

import argparse
from pathlib import Path

FLAVORS = ("cpu", "cuda", "sklearn", "tensorflow")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("--flavor", choices=FLAVORS, default="cpu", help="(default cpu)")
    parser.add_argument("--base-image", metavar="IMG", help="Debian 12 image to build on")
    parser.add_argument("--tag", metavar="T", help="name of the image (default stoker:FLAVOR)")
    parser.add_argument("--context", metavar="DIR", type=Path, help="the checkout of Stoker")
    parser.add_argument("--created", metavar="TIME", help="creation date for the OCI label")
    parser.add_argument(
        "--compiler", action="store_true", help="keep g++ and headers for torch.compile"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")
