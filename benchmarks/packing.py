"""256 MB of weights into model.tar.gz, compared with Python's own tarfile at its default level.

Usage: python benchmarks/packing.py [--rounds 3] [--json]

Ours (the platform's packing: isal's deflate in threads) and tarfile's `w:gz` (level 9, the way of
the SDK) take turns in one run over the same folder; the figures are medians. A plain tar shows
what the machine itself needs to read and write the bytes. Every archive is read back.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from figures import CannotMeasure, Figure, run, say
from stoker.platform.data.artifacts import Merged, pack

TIME_GOAL = 0.083
SIZE_GOAL = 1.0
WEIGHTS_BYTES = 256 << 20
FILES = 4


def main() -> int:
    parser = argparse.ArgumentParser(description="Time and size of model.tar.gz.")
    parser.add_argument("--rounds", type=int, default=3, help="turns that each one takes")
    return run(measure, parser, peer="tarfile w:gz")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Two figures: seconds and bytes."""
    with tempfile.TemporaryDirectory() as folder:
        host_dir, target = Path(folder) / "algo-1", Path(folder) / "model.tar.gz"
        _write_weights(host_dir / "model")
        ways = {
            "ours": lambda: pack(Merged({"algo-1": host_dir}, ("model",)), target),
            "peer": lambda: _pack_with_tarfile(host_dir / "model", target, "w:gz"),
            "plain": lambda: _pack_with_tarfile(host_dir / "model", target, "w"),
        }
        seconds, sizes = _take_turns(ways, target, args.rounds)
    return [
        Figure(
            name="model.tar.gz of 256 MB of weights, time",
            ours=seconds["ours"],
            peer=seconds["peer"],
            unit="s",
            goal=TIME_GOAL,
            others={"plain tar": seconds["plain"]},
        ),
        Figure(
            name="model.tar.gz of 256 MB of weights, size",
            ours=sizes["ours"],
            peer=sizes["peer"],
            unit="MB",
            goal=SIZE_GOAL,
            others={"plain tar": sizes["plain"]},
        ),
    ]


def _take_turns(
    ways: Mapping[str, Callable[[], None]], target: Path, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds and megabytes of each way."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sizes = {}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds} …")
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
            sizes[name] = target.stat().st_size / 1e6
            _check(target)
    return {name: statistics.median(taken) for name, taken in seconds.items()}, sizes


def _write_weights(folder: Path) -> None:
    """As they come out of a training: small normal numbers, float32, several tensors."""
    folder.mkdir(parents=True)
    noise = torch.Generator().manual_seed(0)
    for number in range(FILES):
        weights = torch.randn(WEIGHTS_BYTES // 4 // FILES, generator=noise) * 0.02
        (folder / f"layer-{number}.bin").write_bytes(memoryview(weights.numpy()))


def _pack_with_tarfile(folder: Path, target: Path, mode: str) -> None:
    with tarfile.open(target, mode) as archive:  # type: ignore[call-overload]  # mode is a text
        for file in sorted(folder.iterdir()):
            archive.add(file, arcname=file.name)


def _check(target: Path) -> None:
    with tarfile.open(target) as archive:
        found = sum(member.size for member in archive)
    if found != WEIGHTS_BYTES:
        raise CannotMeasure(f"an archive holds {found} bytes, expected {WEIGHTS_BYTES}")


if __name__ == "__main__":
    sys.exit(main())
