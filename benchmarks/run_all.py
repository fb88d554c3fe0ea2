"""Runs every benchmark and writes benchmarks/RESULTS.md, with the machine and the date.

Usage: python benchmarks/run_all.py [NAME ...] [--output FILE]

A benchmark is a file of this folder that runs alone and knows `--json`. One that cannot run here
(an image that is not built, no network) is named in the results with its reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
_LAST_BREATH_SECONDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What one benchmark printed."""

    file: Path
    figures: Sequence[Mapping[str, Any]]
    remarks: Sequence[str]
    exit_code: int


def main() -> int:
    """Returns 1 when a benchmark broke; one that cannot run here (3) is not a fault."""
    names = [file.stem for file in _find_benchmarks()]
    parser = argparse.ArgumentParser(description="Run all benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--output", type=Path, default=FOLDER / "RESULTS.md")
    args = parser.parse_args()
    if unknown := set(args.names) - set(names):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are: {names}")
    chosen = [file for file in _find_benchmarks() if file.stem in (args.names or names)]
    results = [_run(file) for file in chosen]
    text = render(results)
    _write(args.output, text)
    print(text)
    return int(any(result.exit_code not in (0, 3) for result in results))


def render(results: Sequence[Result]) -> str:
    """The whole of RESULTS.md."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        "# Benchmark results",
        "",
        f"Made by `make bench` on {now}; {_machine()}.",
        "Ratio = ours / peer: smaller is better. On a busy machine times grow, and ratios wander.",
    ]
    for result in results:
        lines += ["", f"## {_title(result.file)}", "", *_table(result)]
    return "\n".join(lines) + "\n"


def _find_benchmarks() -> list[Path]:
    files = sorted(FOLDER.glob("*.py"))
    return [
        f for f in files if f.name != "run_all.py" and '__name__ == "__main__"' in f.read_text()
    ]


def _run(file: Path) -> Result:
    print(f"{file.name} …", file=sys.stderr, flush=True)
    remarks: list[str] = []
    with tempfile.TemporaryFile("w+") as stdout:
        process = subprocess.Popen(
            [sys.executable, str(file), "--json"], stdout=stdout, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr
        for line in process.stderr:
            sys.stderr.write(line)
            remarks.append(line.rstrip())
        exit_code = process.wait(_LAST_BREATH_SECONDS)
        stdout.seek(0)
        printed = json.loads(stdout.read() or "{}") if exit_code == 0 else {}
    own = [line.removeprefix(f"{file.stem}: ") for line in remarks if line.startswith(file.stem)]
    if exit_code != 0:
        own = own or remarks[-1:]
    return Result(
        file=file,
        figures=[*printed.get("figures", []), *printed.get("also", [])],
        remarks=own,
        exit_code=exit_code,
    )


def _table(result: Result) -> list[str]:
    rows = ["| | ours | peer | ratio | goal | also measured |", "|---|---|---|---|---|---|"]
    rows += [_row(figure) for figure in result.figures]
    if not result.figures:
        rows.append(f"| not measured: {'; '.join(result.remarks)} | | | | | |")
        return rows
    notes = [f"{f['name']}: {f['note']}" for f in result.figures if f.get("note")]
    notes += result.remarks
    return [*rows, "", *(f"- {note}" for note in notes)] if notes else rows


def _row(figure: Mapping[str, Any]) -> str:
    unit, goal = figure["unit"], figure["goal"]
    is_missed = goal is not None and figure["ratio"] > goal
    others = [f"{name} {number:.4g} {unit}" for name, number in figure.get("others", {}).items()]
    cells = [
        figure["name"],
        f"{figure['ours']:.4g} {unit}",
        f"{figure['peer']:.4g} {unit}",
        f"**{figure['ratio']:.3f}**" + (" (missed)" if is_missed else ""),
        "–" if goal is None else f"≤ {goal:.3g}",
        ", ".join(others),
    ]
    return f"| {' | '.join(cells)} |"


def _title(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text())) or file.stem
    return f"{text.splitlines()[0].rstrip('.')} (`{file.name}`)"


def _machine() -> str:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{_cpu_model()}, {os.cpu_count()} cores, {memory_bytes / 2**30:.0f} GiB, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _write(file: Path, text: str) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text)
    os.replace(temporary, file)


if __name__ == "__main__":
    sys.exit(main())
