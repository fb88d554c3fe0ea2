"""The arguments of `stoker init`."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("folder", type=Path, help="where to write it; made if it is not there")
    parser.epilog = (
        "It writes src/train.py, stoker.toml, requirements.txt, .gitignore and a notebook, and\n"
        "changes no file that is there."
    )
