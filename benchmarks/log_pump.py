"""40,000 lines of output through `train`, compared with the same script run bare.

Usage: python benchmarks/log_pump.py [--lines 40000] [--rounds 5] [--skip-toolkit] [--json]

The script computes a little before each line, as a training loop does; one early and harmless
line names an error, as warnings do. Ours and the bare script take turns, the figures are medians,
and through ours every byte must arrive as the bare script wrote it: else the run fails. The
stock toolkit, called the way its PyTorch module calls it (capture_error=True), is run once as a
third column: it takes long. The second row is the same flat out, with no work between the lines.
The bare script's output goes to a file, so Python writes it in blocks; the last column is the same
script with each line written at once, as a log needs it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from figures import Figure, run, say
from jobs import JobTree, Launcher, make_job, run_job
from venvs import make_stoker_venv, make_toolkit_venv

GOAL = 1.2
FLAT_OUT_GOAL = 2.0
WORK = 9_000
"""Additions before each line: 0.1 to 0.2 ms."""

SCRIPT = """\
for number in range({lines}):
    total = sum(range({work}))
    if number == 20:
        print("UserWarning: this call may raise a RuntimeError in the next version")
    indent = "    " if number % 5 == 0 else ""
    print(f"{{indent}}step {{number:06d}} loss={{1 / (number + 1):.6f}} – größer 学習 {{total}}")
"""

_LINE_BY_LINE = (
    "import runpy, sys; sys.stdout.reconfigure(line_buffering=True); "
    "runpy.run_path('code/train.py', run_name='__main__')"
)
# What sagemaker_pytorch_container.training does, without its imports of torch.
TOOLKIT_MODULE = """\
from sagemaker_training import entry_point, environment

def main():
    env = environment.Environment()
    entry_point.run(
        env.module_dir, env.user_entry_point, env.to_cmd_args(), env.to_env_vars(),
        capture_error=True,
    )
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launchers:
    """The ways the script is run."""

    ours: Launcher
    bare: Launcher
    line_by_line: Launcher
    toolkit: Launcher | None


def main() -> int:
    parser = argparse.ArgumentParser(description="Time of a script that prints a lot.")
    parser.add_argument("--lines", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5, help="turns of both")
    parser.add_argument("--skip-toolkit", action="store_true", help="leave its column out")
    return run(measure, parser, peer="bare script")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure with work between the lines, one without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        launchers = _make_launchers(folder, with_toolkit=not args.skip_toolkit)
        cases = [("lines with work between", WORK, GOAL), ("lines flat out", 0, FLAT_OUT_GOAL)]
        figures = []
        for title, work, goal in cases:
            script = SCRIPT.format(lines=args.lines, work=work)
            job = make_job(folder / title.replace(" ", "-"), script)
            say(f"{args.lines} {title}, {args.rounds} rounds …")
            figures.append(
                _measure_case(
                    job, launchers, f"{args.lines:,} {title}", rounds=args.rounds, goal=goal
                )
            )
    return figures


def _make_launchers(folder: Path, *, with_toolkit: bool) -> Launchers:
    stoker = make_stoker_venv()
    toolkit = None
    if with_toolkit:
        (folder / "benchmark_module.py").write_text(TOOLKIT_MODULE)
        toolkit = Launcher(
            name="toolkit",
            argv=(str(make_toolkit_venv() / "bin/train"),),
            environ={
                "SAGEMAKER_TRAINING_MODULE": "benchmark_module:main",
                "PYTHONPATH": str(folder),
            },
        )
    return Launchers(
        ours=Launcher(name="ours", argv=(str(stoker / "bin/train"),)),
        bare=Launcher(name="bare", argv=(str(stoker / "bin/python"), "code/train.py")),
        line_by_line=Launcher(
            name="line by line", argv=(str(stoker / "bin/python"), "-c", _LINE_BY_LINE)
        ),
        toolkit=toolkit,
    )


def _measure_case(
    job: JobTree, launchers: Launchers, name: str, *, rounds: int, goal: float | None
) -> Figure:
    ours, bare, line_by_line = [], [], []
    for _ in range(rounds):
        bare.append(run_job(job, launchers.bare))
        expected = job.stdout.read_bytes()
        ours.append(run_job(job, launchers.ours))
        _check_intact(job.stdout.read_bytes(), expected)
        line_by_line.append(run_job(job, launchers.line_by_line))
    others = {"bare, line by line": statistics.median(line_by_line)}
    note = "all lines intact and in order"
    if launchers.toolkit:
        say("the stock toolkit, once …")
        others["toolkit 5.1.4"] = run_job(job, launchers.toolkit)
        damaged = _count_damaged(job.stdout.read_bytes(), expected)
        note += f"; through the toolkit {damaged:,} lines arrive cut or changed"
    return Figure(
        name=name,
        ours=statistics.median(ours),
        peer=statistics.median(bare),
        unit="s",
        goal=goal,
        others=others,
        note=note,
    )


def _check_intact(arrived: bytes, expected: bytes) -> None:
    """Ends the benchmark with 1, naming the first line that differs."""
    if arrived == expected:
        return
    pairs = zip_longest(_lines(arrived), _lines(expected))
    for number, (got, wanted) in enumerate(pairs, start=1):
        if got != wanted:
            sys.exit(
                f"log_pump: OUTPUT DAMAGED at line {number}: expected {wanted!r}, but got {got!r}"
            )


def _count_damaged(arrived: bytes, expected: bytes) -> int:
    # Every line is numbered, so each is there once.
    return len(set(_lines(expected)) - set(_lines(arrived)))


def _lines(output: bytes) -> Sequence[bytes]:
    return output.splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main())
