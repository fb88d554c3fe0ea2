"""The platform's folder that `--root` names."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from stoker.machine.environment import default_root


def root_folder(args: argparse.Namespace) -> Path:
    """The folder asked for, or the default one."""
    return (args.root or default_root()).expanduser().absolute()


def command_line(args: argparse.Namespace, *words: str) -> str:
    """A command to suggest to the user: one that works on the same platform."""
    root = ["--root", str(args.root)] if args.root else []
    return shlex.join(["stoker", *words, *root])
