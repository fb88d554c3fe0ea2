"""Saving and reading tensors in smdebug's format, compared with smdebug's own writer and reader.

Usage: python benchmarks/saved_tensors.py [--rounds 5] [--json]

Both take turns in one process and the figures are medians of the rounds. Saved are the weights
and gradients of a net of 25 million parameters (204 MB), or six reductions of each; for a writer
the time until the step is complete, and the CPU of the process in it. Read are all values of
such a step, the mean of their magnitudes, or a thousand small tensors. The third column is the
disk's own: the same bytes from one piece of memory, past the page cache.
"""

from __future__ import annotations

import argparse
import logging
import mmap
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from figures import CannotMeasure, Figure, run, say

READ_GOAL = 0.5
REDUCTIONS = ("min", "max", "mean", "std", "abs_mean", "l2_norm")
# 25.5 million elements in 161 tensors: about those of a ResNet-50.
SIZES = [2_359_296] * 6 + [1_048_576] * 6 + [262_144] * 12 + [65_536] * 30 + [512] * 107
WORKER = "worker_0"

Tensors = dict[str, np.ndarray[Any, Any]]
Numbers = dict[str, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of saved tensors.")
    parser.add_argument("--rounds", type=int, default=5)
    return run(measure, parser, peer="smdebug")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Two figures of writing, three of reading, and the look for new steps."""
    logging.disable(logging.CRITICAL)
    tensors = _make_tensors()
    numbers: Numbers = {name: dict.fromkeys(REDUCTIONS, 0.5) for name in tensors}
    small = {f"small.{i}": np.full(64, i, np.float32) for i in range(1000)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            *_measure_writing("weights and gradients", tensors, {}, folder, args.rounds),
            *_measure_writing("reductions of them", {}, numbers, folder, args.rounds),
            _measure_reading("their values", tensors, {}, _stock_value, _our_value, folder, args),
            _measure_reading("their abs_mean", tensors, {}, _stock_mean, _our_mean, folder, args),
            _measure_reading(
                "a thousand small tensors", small, {}, _stock_value, _our_value, folder, args
            ),
            _measure_reading(
                "saved reductions", {}, numbers, _stock_saved, _our_saved, folder, args
            ),
        ]


def _make_tensors() -> Tensors:
    random = np.random.default_rng(0)
    kinds = ("layer.{}.weight", "gradient/layer.{}.weight")
    return {
        kind.format(i): random.standard_normal(size, np.float32)
        for kind in kinds
        for i, size in enumerate(SIZES)
    }


def _measure_writing(
    what: str, tensors: Tensors, numbers: Numbers, folder: Path, rounds: int
) -> list[Figure]:
    ours, stock, disk = [], [], []
    size_bytes = sum(array.nbytes for array in tensors.values())
    for number in range(rounds):
        say(f"saving {what}, round {number + 1} of {rounds} …")
        with _space(folder) as place:
            stock.append(_clock(lambda to=place: _write_stock(to / "stock", tensors, numbers)))
            ours.append(_clock(lambda to=place: _write_ours(to / "ours", tensors, numbers)))
            if size_bytes:
                disk.append(_clock(lambda to=place: _write_raw(to / "raw", size_bytes)))
    figures = []
    for index, kind in enumerate(("time", "CPU")):
        limit = {"disk": _median(disk, index)} if disk else {}
        figures.append(
            Figure(
                name=f"saving {what}, {kind}",
                ours=_median(ours, index),
                peer=_median(stock, index),
                unit="ms",
                others=limit,
            )
        )
    return figures


def _measure_reading(
    what: str,
    tensors: Tensors,
    numbers: Numbers,
    stock: Callable[[Any, str], object],
    ours: Callable[[Any, str], object],
    folder: Path,
    args: argparse.Namespace,
) -> Figure:
    from smdebug.trials import create_trial

    from stoker.debugging.tensors import SavedTensors, mark_end, write_collections

    times: dict[str, list[tuple[float, float]]] = {"ours": [], "stock": []}
    say(f"reading {what}, {args.rounds} rounds …")
    with _space(folder) as place:
        _write_ours(place, tensors, numbers)
        write_collections(str(place), WORKER, [])
        mark_end(str(place), is_job=False)
        trial = create_trial(str(place))
        trial.steps()  # sees that the training has ended: so it looks for nothing new later
        names = trial.tensor_names(step=0)

        def read_stock() -> None:
            for name in names:
                stock(trial.tensor(name), name)

        def read_ours() -> None:
            step = SavedTensors(place).at(0)  # opened again: it keeps what it has made
            for name in step.names:
                ours(step.find(name), name)

        read_stock()  # from now on both find the files in the cache
        for _ in range(args.rounds):
            times["stock"].append(_clock(read_stock))
            times["ours"].append(_clock(read_ours))
    return Figure(
        name=f"reading {what}",
        ours=_median(times["ours"], 0),
        peer=_median(times["stock"], 0),
        unit="ms",
        goal=READ_GOAL,
    )


def _stock_value(tensor: Any, _name: str) -> object:  # noqa: ANN401 - smdebug has no types
    return tensor.value(0)


def _our_value(tensor: Any, _name: str) -> object:  # noqa: ANN401 - as its counterpart
    return tensor.value()


def _stock_mean(tensor: Any, _name: str) -> object:  # noqa: ANN401 - smdebug has no types
    return float(np.abs(tensor.value(0)).mean())


def _our_mean(tensor: Any, _name: str) -> object:  # noqa: ANN401 - as its counterpart
    return tensor.reduction("abs_mean")


def _stock_saved(tensor: Any, _name: str) -> object:  # noqa: ANN401 - smdebug has no types
    return tensor.reduction_values(0)


def _our_saved(tensor: Any, _name: str) -> object:  # noqa: ANN401 - as its counterpart
    return [tensor.reduction(name) for name in tensor.saved_reductions]


def _write_stock(folder: Path, tensors: Tensors, numbers: Numbers) -> None:
    try:
        from smdebug.core.modes import ModeKeys
        from smdebug.core.writer import FileWriter
    except ImportError as error:
        raise CannotMeasure(
            f"{error.name} is not installed: `stoker smdebug install` does it"
        ) from error
    writer = FileWriter(trial_dir=str(folder), step=0, worker=WORKER)
    for name, array in tensors.items():
        writer.write_tensor(array, name, mode=ModeKeys.TRAIN, mode_step=0)
    for name, reductions in numbers.items():
        for reduction, number in reductions.items():
            record = f"smdebug/reductions/{reduction.removesuffix('_norm')}/{name}"
            writer.write_tensor(np.array(number), record, mode=ModeKeys.TRAIN, mode_step=0)
    writer.close()


def _write_ours(folder: Path, tensors: Tensors, numbers: Numbers) -> None:
    from stoker.debugging.tensors import SavedStep, write_step

    step = SavedStep(step=0, mode="TRAIN", mode_step=0, tensors=tensors, reductions=numbers)
    write_step(str(folder), WORKER, step)


def _write_raw(file: Path, size_bytes: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | getattr(os, "O_DIRECT", 0))
    for _ in range(-(-size_bytes // len(_BLOCK))):
        os.write(descriptor, _BLOCK)
    os.close(descriptor)


_BLOCK = mmap.mmap(-1, 8 << 20)


@contextmanager
def _space(folder: Path) -> Iterator[Path]:
    place = folder / "tensors"
    place.mkdir()
    yield place
    shutil.rmtree(place)


def _clock(work: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds of time, and of CPU."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3


def _median(times: list[tuple[float, float]], index: int) -> float:
    return statistics.median(each[index] for each in times)


if __name__ == "__main__":
    sys.exit(main())
