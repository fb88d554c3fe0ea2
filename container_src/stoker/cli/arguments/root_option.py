"""`--root`, the platform's folder: the same option of every verb that speaks to the platform."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_root_option(parser: argparse.ArgumentParser) -> None:
    """Add the option to a verb."""
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="the platform's folder (default ~/.stoker/local)"
    )
