"""The few lines that we write to a worker's log."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    print(f"[stoker] {text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    say(f"warning: {text}")
