"""What the profiler adds to a training step: none, TraceML and smdebug's as peers; its sampler.

Usage: python benchmarks/profiler.py [--rounds 5] [--steps 4] [--json]

A net of ResNet-50's size, and one of 200 parameters, are trained on one thread of the CPU with a
DataLoader: without a profiler, with ours (`STOKER_PROFILE=auto`, the sampler's process not
included), with TraceML 0.5.0 as its documentation has it for a loop written by hand (`traceml
run`, `trace_step`), and with the hook of smdebug 1.0.34, fixed only as far as it takes to run, and
a profilerconfig.json that asks for its timeline of every step (it saves no tensors, and its
operator profiles need a torch before 2.0). Four processes take turns, a round of steps each, six
times as many for the small net; the first round warms up.
The figures are medians of the rounds, in CPU time of the process: with one thread that is the time
of the step, and it hardly depends on what else the machine does. Of the small net, what is added
to a step is compared; and that with the step of the large net, as a profiler that only counts
steps (goal: 0.2 %) would have to be.

The sampler's CPU is that of taking and writing a sample, compared with the same figures read by
psutil and written by the json module, in one process, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import CannotMeasure, Figure, run, say
from venvs import make_stock_smdebug, make_traceml_venv

WORKERS = ("none", "ours", "traceml", "smdebug")
SMALL_STEPS = 400
SAMPLES = 200
MOST_CORE_PERCENT = 0.1
"""Of one core, at a sample each half second."""

_LIMIT_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description="What the profiler adds to a step.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="of a round")
    return run(measure, parser, peer="none, or as named")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Steps of two nets, then the sampler."""
    make_traceml_venv()
    make_stock_smdebug()
    large = _race("large", args.rounds, args.steps)
    # A round of the small net takes a tenth of a second: seven are too few on a busy machine.
    small = _race("small", 6 * args.rounds, SMALL_STEPS)
    added = {who: 1e3 * (small[who] - small["none"]) for who in WORKERS[1:]}
    ours_ms, psutil_ms = _compare_samples()
    return [
        Figure(
            name="step of a net of ResNet-50's size",
            ours=large["ours"],
            peer=large["none"],
            unit="ms",
            goal=1.01,
            others={"TraceML": large["traceml"], "smdebug": large["smdebug"]},
        ),
        Figure(
            name="what is added to the small step, in a step of ResNet-50's size",
            ours=large["none"] + added["ours"] / 1e3,
            peer=large["none"],
            unit="ms",
            goal=1.002,
        ),
        Figure(
            name="added to a step of a small net, TraceML as the peer",
            ours=added["ours"],
            peer=added["traceml"],
            unit="us",
            goal=1.0,
            others={"the step": 1e3 * small["none"]},
        ),
        Figure(
            name="the same, smdebug's profiler as the peer",
            ours=added["ours"],
            peer=added["smdebug"],
            unit="us",
        ),
        Figure(
            name="CPU of a sample, psutil as the peer",
            ours=ours_ms,
            peer=psutil_ms,
            unit="ms",
            goal=0.25,
        ),
        Figure(
            name="CPU of the sampler at 500 ms, in percent of a core",
            ours=ours_ms * 2 / 10,
            peer=MOST_CORE_PERCENT,
            unit="%",
            goal=1.0,
            note="the peer is the limit",
        ),
    ]


def _race(net: str, rounds: int, steps: int) -> dict[str, float]:
    """Median milliseconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        workers = {who: _Worker(who, net, Path(folder)) for who in WORKERS}
        try:
            found: dict[str, list[float]] = {who: [] for who in WORKERS}
            for number in range(rounds + 1):
                say(f"{net} net: round {number} of {rounds}")
                for who, worker in workers.items():
                    milliseconds = worker.train(steps)
                    if number:
                        found[who].append(milliseconds)
            return {who: statistics.median(times) for who, times in found.items()}
        finally:
            for worker in workers.values():
                worker.end()


class _Worker:
    """A process that trains when it is asked to, by a socket: TraceML's launcher takes stdin."""

    def __init__(self, who: str, net: str, folder: Path) -> None:
        root = folder / who
        root.mkdir()
        path = root / "turn"
        environ = dict(os.environ)  # noqa: TID251 - of a process that is started
        environ |= {"OMP_NUM_THREADS": "1", "STOKER_ROOT": str(root)}
        command = [sys.executable, __file__]
        if who == "ours":
            environ |= {"STOKER_WORKER": "1", "STOKER_PROFILE": "auto"}
        if who == "traceml":
            (packages,) = make_traceml_venv().glob("lib/python*/site-packages")
            environ["PYTHONPATH"] = str(packages)
            command = [sys.executable, "-m", "traceml_ai.launcher.cli", "run", __file__]
            command += ["--logs-dir", str(root / "logs")]
        if who == "smdebug":
            environ["PYTHONPATH"] = str(make_stock_smdebug())
            environ["SMPROFILER_CONFIG_PATH"] = _write_profiler_config(root)
        environ |= {"TURN": str(path), "WHO": who, "NET": net}
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen(1)
            server.settimeout(_LIMIT_SECONDS)
            self._log = (root / "log").open("w+")
            self._process = subprocess.Popen(
                command, env=environ, cwd=root, stdout=self._log, stderr=subprocess.STDOUT
            )
            try:
                self._connection, _ = server.accept()
            except TimeoutError:
                self._process.kill()
                raise CannotMeasure(f"{who} does not train: {path.parent}/log") from None
        self._connection.settimeout(_LIMIT_SECONDS)

    def train(self, steps: int) -> float:
        """Milliseconds of a step."""
        self._connection.sendall(b"%d\n" % steps)
        answer = self._connection.makefile().readline()
        if not answer:
            self._log.seek(0)
            raise CannotMeasure(f"a worker has ended: {self._log.read()[-500:]}")
        return float(answer)

    def end(self) -> None:
        """Lets it end by itself, so that files are closed."""
        self._connection.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


def _write_profiler_config(root: Path) -> str:
    steps = json.dumps({"StartStep": 0, "NumSteps": 1_000_000, "MetricsRegex": ".*"})
    parameters = {"LocalPath": str(root / "profile"), "DataloaderProfilingConfig": steps}
    file = root / "profilerconfig.json"
    file.write_text(json.dumps({"ProfilingParameters": parameters}))
    return str(file)


def work(environ: dict[str, str]) -> None:
    """Trains by turns until the connection is closed."""
    import contextlib

    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    from debug_hook import _make_resnet50

    torch.set_num_threads(1)
    is_large = environ["NET"] == "large"
    model: Any = (
        _make_resnet50() if is_large else nn.Sequential(nn.Linear(10, 20), nn.Linear(20, 1))
    )
    data = torch.randn(4, 3, 64, 64) if is_large else torch.randn(4, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trace_step: Any = lambda model: contextlib.nullcontext()  # noqa: E731 - as TraceML's
    if environ["WHO"] == "traceml":
        import traceml_ai

        traceml_ai.init(mode="auto")
        trace_step = traceml_ai.trace_step
    if environ["WHO"] == "smdebug":
        import smdebug.pytorch as smd

        never = smd.SaveConfig(save_interval=10**9)
        hook = smd.Hook(out_dir=f"{environ['STOKER_ROOT']}/tensors", save_config=never)
        hook.register_module(model)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(environ["TURN"])
        for line in connection.makefile():
            steps = int(line)
            loader = DataLoader(TensorDataset(data.repeat(steps, *[1] * (data.dim() - 1))), 4)
            start = time.process_time()
            for (batch,) in loader:
                with trace_step(model):
                    optimizer.zero_grad()
                    model(batch).square().mean().backward()
                    optimizer.step()
            milliseconds = 1000 * (time.process_time() - start) / steps
            connection.sendall(f"{milliseconds}\n".encode())


def _compare_samples() -> tuple[float, float]:
    """Milliseconds of CPU of our sample and of psutil's: medians."""
    from stoker.profiling.sampling.sample import Sampler
    from stoker.profiling.sampling.sample_file import SampleFiles

    with tempfile.TemporaryDirectory() as folder:
        sampler, files = Sampler(folder), SampleFiles(folder, "algo-1")
        times: tuple[list[float], list[float]] = ([], [])
        with (Path(folder) / "psutil").open("w") as peer:
            for number in range(SAMPLES):
                begun = time.process_time()
                # As if half a second passed between two: the processes are read each tenth time.
                events = sampler.take(number / 2)
                if events:
                    files.write(events, 1e9 + number / 2)
                half = time.process_time()
                _sample_by_psutil(folder, peer, processes=number % 10 == 0)
                times[0].append(half - begun)
                times[1].append(time.process_time() - half)
        files.close()
    return 1000 * statistics.mean(times[0][2:]), 1000 * statistics.mean(times[1][2:])


def _sample_by_psutil(folder: str, file: Any, *, processes: bool) -> None:  # noqa: ANN401 - text
    import psutil

    values: dict[str, Any] = {}
    for core, percent in enumerate(psutil.cpu_percent(percpu=True)):
        values[f"cpu{core}"] = percent
    for core, times in enumerate(psutil.cpu_times_percent(percpu=True)):
        values[f"wait{core}"] = times.iowait
    memory, network, disk = (
        *(psutil.virtual_memory(), psutil.net_io_counters(pernic=True)),
        psutil.disk_io_counters(perdisk=True),
    )
    values |= {"memory": memory.percent, "used": memory.used, "limit": memory.total}
    values |= {name: n.bytes_recv + n.bytes_sent for name, n in network.items()}
    values |= {name: d.read_bytes + d.write_bytes for name, d in disk.items()}
    values |= {p: psutil.disk_usage(p).percent for p in ("/dev/shm", folder)}
    if processes:
        for process in psutil.process_iter(["name", "cpu_percent", "memory_info"]):
            values[f"{process.pid}"] = process.info["cpu_percent"]
    for name, value in values.items():
        file.write(json.dumps({"Name": name, "Value": value, "Timestamp": time.time()}) + "\n")
    file.flush()


if __name__ == "__main__":
    if "TURN" in os.environ:  # noqa: TID251 - set by ourselves, for this process
        sys.path.insert(0, str(Path(__file__).parent))
        work(dict(os.environ))  # noqa: TID251 - as above
    else:
        sys.exit(main())
