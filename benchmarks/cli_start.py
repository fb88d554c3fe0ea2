"""How soon the command line answers, compared with Python itself.

Usage: python benchmarks/cli_start.py [--rounds 30] [--json]

Each command is a process of its own, in turns with `python -c pass`; the figures are medians.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from figures import CannotMeasure, Figure, run, say

GOAL = 3.0
STOKER = Path(sys.executable).with_name("stoker")
COMMANDS = {
    "stoker --help": (["--help"], GOAL),
    "stoker train --help": (["train", "--help"], GOAL),
    "stoker tensors view --help": (["tensors", "view", "--help"], GOAL),
    "stoker metric-definitions loss": (["metric-definitions", "loss"], None),
    "stoker rules ls": (["rules", "ls"], None),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="The start of the command line.")
    parser.add_argument("--rounds", type=int, default=30)
    return run(measure, parser, peer="python -c pass")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure for each command."""
    if not STOKER.exists():
        raise CannotMeasure(f"{STOKER} is not installed: run `make install`")
    say(f"{args.rounds} rounds of {len(COMMANDS)} commands …")
    python = [sys.executable, "-c", "pass"]
    commands = {name: [str(STOKER), *words] for name, (words, _) in COMMANDS.items()}
    times: dict[str, list[float]] = {name: [] for name in ("python", *commands)}
    for _ in range(args.rounds):
        for name, command in (("python", python), *commands.items()):
            times[name].append(_milliseconds(command))
    peer = median(times["python"])
    return [
        Figure(name=name, ours=median(times[name]), peer=peer, unit="ms", goal=goal)
        for name, (_, goal) in COMMANDS.items()
    ]


def _milliseconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
