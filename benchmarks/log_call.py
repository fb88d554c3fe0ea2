"""`job.log` of three metrics on the training thread, compared with an empty loop.

Usage: python benchmarks/log_call.py [--calls 2000] [--json]

Each call is timed by itself, after a small matrix product, as in a training loop; an empty call is
timed in the same way, and the figures are medians. The goal is 20 µs; the ratio is to 20 µs
and an empty call. The other columns are a plain `print` of the same line, and the stock add_scalar
three times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from figures import CannotMeasure, Figure, run, say

GOAL_MICROSECONDS = 20.0
SIDE = 200
STOCK = "3 × stock add_scalar"


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of job.log.")
    parser.add_argument("--calls", type=int, default=2_000)
    return run(measure, parser, peer="20 µs + empty call")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure for floats, one for tensors."""
    say(f"{args.calls} calls of each, in turns …")
    try:
        times = _measure_calls(args.calls)
    except ImportError as error:
        raise CannotMeasure(f"{error.name} is not installed") from error
    return [
        Figure(
            name=f"job.log of three {kind}",
            ours=times[kind],
            peer=GOAL_MICROSECONDS + times["empty"],
            unit="µs",
            goal=1.0 if kind == "floats" else None,
            others={name: times[name] for name in ("empty", "print", STOCK)},
        )
        for kind in ("floats", "tensors")
    ]


def _measure_calls(rounds: int) -> dict[str, float]:
    import torch
    from torch.utils.tensorboard import SummaryWriter

    import stoker
    from stoker.metrics.log import open_log

    loss, matrix = torch.tensor(0.5), torch.rand(SIDE, SIDE)
    torch.set_num_threads(1)  # threads that wait for each other would be measured as well
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as null:
        job = stoker.job(root=folder)
        stock = SummaryWriter(str(Path(folder, "stock")))
        calls: dict[str, Callable[[int], object]] = {
            "empty": lambda step: None,
            "floats": lambda step: job.log(step, loss=0.5, accuracy=0.25, lr=1e-3),
            "tensors": lambda step: job.log(step, loss=loss, accuracy=loss, lr=loss),
            "print": lambda step: print(f"step={step} loss=0.5 accuracy=0.25 lr=0.001"),
            STOCK: lambda step: [stock.add_scalar(tag, 0.5, step) for tag in ("a", "b", "c")],
        }
        with redirect_stdout(null):
            times = _time_in_turns(calls, rounds, work=lambda: matrix @ matrix)
            open_log(job).flush()
        stock.close()
    return times


def _time_in_turns(
    calls: dict[str, Callable[[int], object]], rounds: int, *, work: Callable[[], object]
) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for step in range(rounds):
        for name, call in calls.items():
            work()
            start = time.perf_counter()
            call(step)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) * 1e6 for name, each in times.items()}


if __name__ == "__main__":
    sys.exit(main())
