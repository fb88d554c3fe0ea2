"""From `train` to the user's first line, compared with the stock toolkit's `train`.

Usage: python benchmarks/startup.py [--rounds 15] [--image IMAGE] [--json]

Ours, the toolkit and bare Python (what the machine itself needs) take turns in one run; the
figures are medians. The script reads the monotonic clock in its first line, so nothing after it
counts. The toolkit has an environment of its own, without smdebug, which is its best case. With
`--image` the same is done inside an image, where the toolkit finds smdebug.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from figures import CannotMeasure, Figure, run, say
from jobs import JobTree, Launcher, make_job, run_job
from venvs import make_stoker_venv, make_toolkit_venv

GOAL = 0.10
FIRST_LINE = """\
import time; now = time.monotonic()
import os
with open(os.environ["BENCHMARK_FIRST_LINE"], "w") as file:
    file.write(repr(now - float(os.environ["BENCHMARK_STARTED"])))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Time from `train` to the user's first line.")
    parser.add_argument("--rounds", type=int, default=15, help="turns that each one takes")
    parser.add_argument("--image", help="measure inside this image instead")
    parser.add_argument(
        "--here", action="store_true", help="measure the `train` on PATH (what --image does)"
    )
    return run(measure, parser, peer="toolkit 5.1.4")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure: the median of each launcher."""
    if args.image:
        return [_measure_inside(args.image, args.rounds)]
    launchers = _on_path() if args.here else _in_venvs()
    with tempfile.TemporaryDirectory() as folder:
        job = make_job(Path(folder) / "ml", FIRST_LINE)
        ours, toolkit, bare = _medians(job, launchers, args.rounds)
    return [
        Figure(
            name="train to first user line",
            ours=ours,
            peer=toolkit,
            unit="ms",
            goal=GOAL,
            others={"bare python": bare},
        )
    ]


def _in_venvs() -> list[Launcher]:
    stoker, toolkit = make_stoker_venv(), make_toolkit_venv()
    return [
        Launcher(name="ours", argv=(str(stoker / "bin/train"),)),
        Launcher(name="toolkit", argv=(str(toolkit / "bin/train"),)),
        Launcher(name="bare", argv=(str(toolkit / "bin/python"), "code/train.py")),
    ]


def _on_path() -> list[Launcher]:
    return [
        Launcher(name="ours", argv=("train",)),
        Launcher(name="toolkit", argv=("python", "-m", "sagemaker_training.cli.train")),
        Launcher(name="bare", argv=("python", "code/train.py")),
    ]


def _medians(job: JobTree, launchers: Sequence[Launcher], rounds: int) -> list[float]:
    """Milliseconds of each; the first round only warms the disk's cache and is not counted."""
    say(f"{rounds} rounds of {', '.join(launcher.name for launcher in launchers)} …")
    taken = [[_run_once(job, launcher) for launcher in launchers] for _ in range(rounds + 1)]
    return [statistics.median(column) for column in zip(*taken[1:], strict=True)]


def _run_once(job: JobTree, launcher: Launcher) -> float:
    file = job.root / "first-line"
    file.unlink(missing_ok=True)
    run_job(job, launcher, {"BENCHMARK_FIRST_LINE": str(file)})
    return 1000 * float(file.read_text())


def _measure_inside(image: str, rounds: int) -> Figure:
    """Runs this very file in the image: the time to start a container does not count."""
    folder = Path(__file__).resolve().parent
    mount = f"type=bind,src={folder},dst=/benchmarks,readonly"
    docker = ["docker", "run", "--rm", "--mount", mount, "--entrypoint", "python", image]
    inside = ["-B", "/benchmarks/startup.py", "--here", "--json", "--rounds", str(rounds)]
    try:
        done = subprocess.run(
            [*docker, *inside], stdout=subprocess.PIPE, text=True, timeout=600, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotMeasure(f"could not be run in {image}: {error}") from error
    (found,) = json.loads(done.stdout)["figures"]
    return Figure(
        name=f"{found['name']}, in {image}",
        ours=found["ours"],
        peer=found["peer"],
        unit=found["unit"],
        goal=found["goal"],
        others=found["others"],
    )


if __name__ == "__main__":
    sys.exit(main())
