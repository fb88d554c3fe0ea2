"""A histogram of 25 million weights for TensorBoard, compared with torch's SummaryWriter.

Usage: python benchmarks/tensorboard_histograms.py [--elements 25000000] [--rounds 5] [--json]

Both take turns; the figures are medians of the time that `add_histogram` keeps the training
thread, once each writer has its file: the stock one makes it in its constructor, ours at the first
call. The bucket counts of both must be equal: else the run fails. The third column is the
machine's limit, one pass that reads the values.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from figures import CannotMeasure, Figure, run, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch

GOAL = 0.30
SMALL_GOAL = 0.70
SMALL_CALLS = 100


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of add_histogram.")
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    return run(measure, parser, peer="SummaryWriter")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure for a large tensor, and one each for two small layers."""
    try:
        import torch
        import torch.utils.tensorboard
    except ImportError as error:
        raise CannotMeasure(f"{error.name} is not installed") from error
    generator = torch.Generator().manual_seed(0)
    figures = []
    for elements, calls, goal in (
        (args.elements, 1, GOAL),
        (4_096, SMALL_CALLS, SMALL_GOAL),
        (64, SMALL_CALLS, SMALL_GOAL),
    ):
        say(f"{elements:,} elements, {args.rounds} rounds …")
        values = torch.randn(elements, generator=generator) * 0.05
        rounds = [_measure_round(values, calls) for _ in range(args.rounds)]
        ours, stock, limit = map(statistics.median, zip(*rounds, strict=True))
        figures.append(
            Figure(
                name=f"histogram of {elements:,} float32",
                ours=ours,
                peer=stock,
                unit="ms",
                goal=goal,
                others={"one read pass": limit},
                note="all bucket counts equal",
            )
        )
    return figures


def _measure_round(values: torch.Tensor, calls: int) -> tuple[float, float, float]:
    from torch.utils.tensorboard import SummaryWriter

    from stoker.metrics.writer import Writer

    with tempfile.TemporaryDirectory() as folder:
        stock, ours = SummaryWriter(f"{folder}/stock"), Writer(f"{folder}/ours")
        for writer in (stock, ours):
            writer.add_histogram("weights", values, 0)
        times: tuple[list[float], list[float]] = ([], [])
        for step in range(1, calls + 1):
            times[0].append(_time(partial(stock.add_histogram, "weights", values, step)))
            times[1].append(_time(partial(ours.add_histogram, "weights", values, step)))
        stock.close()
        ours.close()
        _check_equal(Path(folder, "ours"), Path(folder, "stock"))
    return statistics.median(times[1]), statistics.median(times[0]), _time(values.max)


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def _check_equal(ours: Path, stock: Path) -> None:
    if _buckets(ours) != _buckets(stock):
        sys.exit("tensorboard_histograms: the bucket counts are not those of SummaryWriter")


def _buckets(folder: Path) -> list[tuple[float, float]]:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    (file,) = folder.iterdir()
    events = (e for e in LegacyEventFileLoader(str(file)).Load() if e.HasField("summary"))
    histogram = next(events).summary.value[0].histo
    return list(zip(histogram.bucket_limit, histogram.bucket, strict=True))


if __name__ == "__main__":
    sys.exit(main())
