"""`python -m stoker.platform`: the server of a root, in the foreground."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker.errors import StokerError
from stoker.machine.failures import UsageRefused
from stoker.platform.server import ServerSettings, serve

_DEFAULT_SLOTS = 4
_USAGE = 2
_OURS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal says to end."""
    asked = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        serve(
            ServerSettings(
                folder=asked.root, engine=asked.engine, port=asked.port, slots=asked.slots
            )
        )
    except StokerError as error:
        print(f"stoker: {error}", file=sys.stderr)
        return _USAGE if isinstance(error, UsageRefused) else _OURS
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stoker.platform", description="Serve a local platform."
    )
    parser.add_argument("--root", type=Path, required=True, help="the platform's folder")
    parser.add_argument("--port", type=_port, default=0, help="0: any that is free")
    parser.add_argument("--engine", choices=("auto", "docker", "process"), default="auto")
    parser.add_argument("--slots", type=_slots, default=_DEFAULT_SLOTS, help="jobs side by side")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{port} is not a port (0 to 65535)")
    return port


def _slots(text: str) -> int:
    slots = int(text)
    if slots < 1:
        raise argparse.ArgumentTypeError(f"at least one job at a time, but got {slots}")
    return slots


if __name__ == "__main__":
    sys.exit(main())
