"""How long the profiler's report takes: 100,000 steps, an hour of samples every 500 ms, 4 hosts.

Usage: python benchmarks/profiler_report.py [--rounds 3] [--json]

`stoker report DIR` as users run it, a process of its own. The peer is the limit that was promised,
5 s; `lines` is what `json.loads` of each line of the same samples takes, which a reader in Python
cannot avoid.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import Figure, run, say
from stoker.bus.step_records import FIELDS, StepFacts, pack, steps_file, write_facts
from stoker.bus.system_samples import samples_file

_HOSTS, _STEPS, _SAMPLES = 4, 25_000, 7200
_INTERVAL_SECONDS = 0.5
_START = 1_600_000_000.0
_LIMIT_SECONDS = 5.0
_DIMENSIONS = (
    *(("cpu", "CPUUtilization", f"cpu{n}") for n in range(4)),
    *(("i/o", "I/OWaitPercentage", f"cpu{n}") for n in range(4)),
    ("gpu", "GPUUtilization", "gpu0"),
    ("gpu", "GPUMemoryUtilization", "gpu0"),
    ("cpu", "ContainerCPUUtilization", "container"),
    ("memory", "Memory", "MemoryUsedPercent"),
    ("network", "Algorithm", "ReceiveBytesPerSecond"),
    ("network", "Algorithm", "TransmitBytesPerSecond"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="How long the profiler's report takes.")
    parser.add_argument("--rounds", type=int, default=3)
    return run(measure, parser, peer="limit of 5 s")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("writing an hour of samples and 100,000 steps …")
        for host in range(1, _HOSTS + 1):
            _write_samples(folder, f"algo-{host}")
            _write_steps(folder, f"algo-{host}", host - 1)
        reports, lines = [], []
        for _ in range(args.rounds):
            reports.append(_time(lambda: _report(folder)))
            lines.append(_time(lambda: _parse(folder)))
        size = (folder / "page.html").stat().st_size
    return [
        Figure(
            name="report of 100,000 steps and an hour on 4 hosts",
            ours=statistics.median(reports),
            peer=_LIMIT_SECONDS,
            unit="s",
            goal=1.0,
            others={"lines": statistics.median(lines)},
            note=f"{size / 1e6:.1f} MB of page",
        )
    ]


def _time(act: object) -> float:
    began = time.perf_counter()
    act()  # type: ignore[operator] # a function without arguments
    return time.perf_counter() - began


def _report(folder: Path) -> None:
    argv = [sys.executable, "-m", "stoker", "report", str(folder), "--html", f"{folder}/page.html"]
    subprocess.run(argv, check=True, capture_output=True, timeout=600)


def _parse(folder: Path) -> None:
    for file in (folder / "system").rglob("*.json"):
        for line in file.read_text().splitlines():
            json.loads(line)


def _write_samples(folder: Path, host: str) -> None:
    texts: dict[str, list[str]] = {}
    for place in range(_SAMPLES):
        when = _START + place * _INTERVAL_SECONDS
        lines = texts.setdefault(samples_file(str(folder), when, host), [])
        for kind, dimension, name in _DIMENSIONS:
            event = {"Type": kind, "Name": name, "Dimension": dimension}
            event |= {"Value": round(100 * random.random(), 2)}
            lines.append(json.dumps({**event, "NodeId": host, "Timestamp": when}))
    for file, lines in texts.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text("\n".join(lines) + "\n")


def _write_steps(folder: Path, host: str, rank: int) -> None:
    file = steps_file(str(folder), host=host, rank=rank, pid=1)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    row = dict.fromkeys(FIELDS, 0.0) | {"total": 0.14, "longest": 0.14, "data_wait": 0.02}
    row |= {"forward": 0.04, "backward": 0.06, "optimizer": 0.02}
    whole = {"count": 1, "flags": 0, "ready_batches": -1}
    content = bytearray()
    for step in range(_STEPS):
        values = {**row, **whole, "step": step, "start": _START + 0.144 * step}
        content += pack(tuple(values[name] for name in FIELDS))
    Path(file).write_bytes(content)
    write_facts(file, StepFacts(host=host, rank=rank, pid=1, world_size=_HOSTS))


if __name__ == "__main__":
    sys.exit(main())
