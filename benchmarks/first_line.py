"""From Enter to the script's first line: `stoker train`, compared with a bare `docker run`.

Usage: python benchmarks/first_line.py [--rounds 5] [--image stoker:cpu] [--json]

Both run the same image and script and take turns; the figures are medians. The platform is up,
as after a first job. The second row adds an unchanged channel of 2 GB to ours, the third is a
second platform with 4 GB of unrelated objects in S3 (sparse files: only their names and sizes
count); both are compared with the first row.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from figures import CannotMeasure, Figure, run, say

GOAL = 1.3
_LINE = b"the first line"
_SCRIPT = f"print({_LINE.decode()!r}, flush=True)\n"
_GIGABYTE = 10**9
_BUCKET = "sagemaker-us-east-1-000000000000"
_STOKER = [sys.executable, "-m", "stoker.cli.main"]


def main() -> int:
    parser = argparse.ArgumentParser(description="How long until the script's first line.")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each one takes")
    parser.add_argument("--image", default="stoker:cpu")
    return run(measure, parser, peer="docker run")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Small data, a large channel, a full S3."""
    # Containers write as root: what cannot be removed stays.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        work = Path(name)
        for folder in ("source", "small", "large"):
            (work / folder).mkdir()
        (work / "source/train.py").write_text(_SCRIPT)
        (work / "small/words.txt").write_text("coal")
        _make_files(work / "large", 4, _GIGABYTE // 2)
        _make_files(work / "full/s3" / _BUCKET / "unrelated", 8, _GIGABYTE // 2)
        mount = f"{work}/source:/mnt:ro"
        bare = ["docker", "run", "--rm", "--volume", mount, "--entrypoint", "python3"]
        with _platform(work / "root"), _platform(work / "full"):
            train = [*_STOKER, "train", str(work / "source/train.py"), "--image", args.image]
            small = ["--channel", f"train={work / 'small'}"]
            large = ["--channel", f"train={work / 'large'}"]
            commands = {
                "small": [*train, *small, "--root", str(work / "root")],
                "large": [*train, *large, "--root", str(work / "root")],
                "bare": [*bare, args.image, "/mnt/train.py"],
                "full": [*train, *small, "--root", str(work / "full")],
            }
            say(f"{args.rounds} rounds of stoker train and docker run …")
            return _make_figures(_take_turns(commands, args.rounds))


@contextmanager
def _platform(root: Path) -> Iterator[None]:
    place = ["--root", str(root)]
    _call([*_STOKER, "local", "up", "--detach", "--engine", "docker", *place])
    try:
        yield
    finally:
        _call([*_STOKER, "local", "down", *place])


def _make_figures(taken: dict[str, float]) -> list[Figure]:
    first, small = "Enter to the first line", taken["small"]
    return [
        Figure(name=first, ours=small, peer=taken["bare"], unit="s", goal=GOAL),
        Figure(
            name=f"{first}, unchanged 2 GB channel",
            ours=taken["large"],
            peer=small,
            unit="s",
            goal=(small + 1.0) / small,
            note="compared with a small channel; at most 1.0 s more",
        ),
        Figure(
            name=f"{first}, 4 GB of other objects",
            ours=taken["full"],
            peer=small,
            unit="s",
            goal=1.2,
            note="compared with an empty S3",
        ),
    ]


def _take_turns(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            taken = _time(command)
            if number:  # the first round warms caches and is not counted
                seconds[name].append(taken)
    return {name: statistics.median(each) for name, each in seconds.items()}


def _time(command: Sequence[str]) -> float:
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        output = process.stdout
        if output is None:
            raise CannotMeasure("no pipe")
        seen = b""
        while _LINE not in seen:
            line = output.readline()
            if not line:
                raise CannotMeasure(f"{command[:4]}: {seen.decode(errors='replace')[-500:]}")
            seen += line
        seconds = time.monotonic() - started
        output.read()
    return seconds


def _make_files(folder: Path, count: int, size_bytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        with (folder / f"{number}.bin").open("wb") as file:
            file.truncate(size_bytes)


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"{' '.join(command[2:5])}: {done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main())
