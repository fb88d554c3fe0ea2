"""A histogram of 25 million weights for TensorBoard, beside torch's SummaryWriter.

Usage: python benchmarks/tensorboard_histograms.py [--elements 25000000] [--rounds 5] [--json]

Both take turns; the figures are medians of the time that `add_histogram` keeps the training
thread. The bucket counts of both must be equal: else the run fails. The third column is the
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


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of add_histogram.")
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    return run(measure, parser, peer="SummaryWriter")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure for a large tensor, one for that of a small layer."""
    try:
        import torch
        import torch.utils.tensorboard
    except ImportError as error:
        raise CannotMeasure(f"{error.name} is not installed") from error
    generator = torch.Generator().manual_seed(0)
    figures = []
    for elements, goal in ((args.elements, GOAL), (4_096, None)):
        say(f"{elements:,} elements, {args.rounds} rounds …")
        values = torch.randn(elements, generator=generator) * 0.05
        rounds = [_measure_round(values) for _ in range(args.rounds)]
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


def _measure_round(values: torch.Tensor) -> tuple[float, float, float]:
    from torch.utils.tensorboard import SummaryWriter

    from stoker.metrics.writer import Writer

    with tempfile.TemporaryDirectory() as folder:
        stock, ours = SummaryWriter(f"{folder}/stock"), Writer(f"{folder}/ours")
        stock_time = _time(partial(stock.add_histogram, "weights", values, 1))
        our_time = _time(partial(ours.add_histogram, "weights", values, 1))
        stock.close()
        ours.close()
        _check_equal(Path(folder, "ours"), Path(folder, "stock"))
    return our_time, stock_time, _time(values.max)


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
    (event,) = (e for e in LegacyEventFileLoader(str(file)).Load() if e.HasField("summary"))
    histogram = event.summary.value[0].histo
    return list(zip(histogram.bucket_limit, histogram.bucket, strict=True))


if __name__ == "__main__":
    sys.exit(main())
