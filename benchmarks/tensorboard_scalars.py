"""A scalar for TensorBoard, compared with torch's SummaryWriter.

Usage: python benchmarks/tensorboard_scalars.py [--scalars 20000] [--rounds 7] [--json]

Both writers take turns in one process; the figures are medians of the rounds. The training
thread's cost is the time of the calls, with a pause after each thousand as a training loop makes
between steps; the CPU is that of the whole process, until everything is in the file. The third
column is a call of an empty function.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import CannotMeasure, Figure, run, say

CALL_GOAL = 0.10
CPU_GOAL = 0.25
HEAP = 1_000
PAUSE_SECONDS = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of add_scalar.")
    parser.add_argument("--scalars", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    return run(measure, parser, peer="SummaryWriter")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Two figures: the calling thread's, and the process's."""
    try:
        from torch.utils.tensorboard import SummaryWriter

        from stoker.metrics.writer import Writer
    except ImportError as error:
        raise CannotMeasure(f"{error.name} is not installed") from error
    ours: list[tuple[float, float]] = []
    stock: list[tuple[float, float]] = []
    for number in range(args.rounds):
        say(f"round {number + 1} of {args.rounds} …")
        with tempfile.TemporaryDirectory() as folder:
            stock.append(_measure_round(SummaryWriter, Path(folder, "stock"), args.scalars))
            ours.append(_measure_round(Writer, Path(folder, "ours"), args.scalars))
    empty = _time_calls(_do_nothing, args.scalars)
    return [
        Figure(
            name=name,
            ours=statistics.median(each[index] for each in ours),
            peer=statistics.median(each[index] for each in stock),
            unit="µs",
            goal=goal,
            others={"empty call": empty},
        )
        for index, name, goal in (
            (0, "a scalar, on the training thread", CALL_GOAL),
            (1, "a scalar, CPU of the process", CPU_GOAL),
        )
    ]


def _measure_round(kind: Callable[[str], Any], folder: Path, scalars: int) -> tuple[float, float]:
    """Microseconds a scalar: of the calls, and of the whole process's CPU."""
    writer = kind(str(folder))
    writer.flush()
    before = time.process_time()
    call = _time_calls(writer.add_scalar, scalars)
    writer.flush()
    cpu = (time.process_time() - before) / scalars * 1e6
    writer.close()
    return call, cpu


def _time_calls(add: Callable[[str, float, int], None], scalars: int) -> float:
    total = 0.0
    for first in range(0, scalars, HEAP):
        start = time.perf_counter()
        for step in range(first, first + HEAP):
            add("train/loss", 0.5, step)
        total += time.perf_counter() - start
        time.sleep(PAUSE_SECONDS)
    return total / scalars * 1e6


def _do_nothing(_tag: str, _value: float, _step: int) -> None:
    return


if __name__ == "__main__":
    sys.exit(main())
