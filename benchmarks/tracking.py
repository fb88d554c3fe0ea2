"""The MLflow face of the local platform, compared with `mlflow server` on sqlite.

Usage: python benchmarks/tracking.py [--runs 1000] [--rounds 9] [--json]

Both servers get the same requests over HTTP, in turns, from the same client: one connection per
request, as mlflow's own client without a session has it. mlflow is that of .venv-sdk-v3, with one
worker. `job.log` is timed in the training thread, with a tracking server (ours) and without one
(peer), in turns. The last figure is a thinned read of a series of 1,000,000 points from the run
store; its other column is the goal of 100 ms.
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from figures import CannotMeasure, Figure, run, say
from stoker.platform.model.root import Root, read_credentials, read_server_info
from stoker.tracking.series import Point
from stoker.tracking.store import RunStore

REPOSITORY = Path(__file__).resolve().parents[1]
MLFLOW = REPOSITORY / ".venv-sdk-v3/bin/mlflow"
_START_SECONDS = 300
_SEARCHED = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracker:
    """One server, and how long it took to answer first."""

    address: str
    authorization: str
    start_seconds: float

    def call(self, path: str, body: object) -> dict[str, object]:
        """The answer to one POST."""
        request = urllib.request.Request(
            f"{self.address}/api/2.0/mlflow/{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": self.authorization},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            found: dict[str, object] = json.load(answer)
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The MLflow face and `mlflow server`.")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    return run(measure, parser, peer="mlflow server")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Start, log and search, then the thinned read."""
    if not MLFLOW.exists():
        raise CannotMeasure(f"{MLFLOW} is not there; fix: python docker/sdk_venv.py v3")
    with tempfile.TemporaryDirectory() as folder, _platform(Path(folder)) as ours:
        with _mlflow(Path(folder)) as theirs:
            figures = [
                Figure(
                    name="start until the first answer",
                    ours=ours.start_seconds,
                    peer=theirs.start_seconds,
                    unit="s",
                    goal=0.1,
                ),
                *_compare_calls(ours, theirs, args.runs, args.rounds),
                _measure_log(ours, Path(folder), args.rounds),
            ]
        return [*figures, _measure_thinned(Path(folder))]


def _compare_calls(ours: Tracker, theirs: Tracker, runs: int, rounds: int) -> list[Figure]:
    ids = {}
    for tracker in (ours, theirs):
        say(f"{runs} runs at {tracker.address} …")
        made = [_make_run(tracker, number) for number in range(runs)]
        ids[tracker] = made[0]

    def log(tracker: Tracker) -> None:
        now = round(time.time() * 1000)
        metrics = [
            {"key": f"m{i % 10}", "value": i, "timestamp": now, "step": now + i}
            for i in range(1000)
        ]
        tracker.call("runs/log-batch", {"run_id": ids[tracker], "metrics": metrics})

    def search(tracker: Tracker) -> None:
        body = {
            "experiment_ids": ["0"],
            "filter": "params.lr = '1' and metrics.loss < 0.5",
            "order_by": ["metrics.loss ASC"],
            "max_results": _SEARCHED,
        }
        if len(tracker.call("runs/search", body).get("runs", ())) != min(_SEARCHED, runs // 2):  # type: ignore[arg-type]  # a list
            raise CannotMeasure(f"{tracker.address} found other runs than expected")

    calls: dict[str, Callable[[Tracker], None]] = {
        "log-batch of 1,000 metrics": log,
        f"search over {runs} runs": search,
    }
    return [_time(name, call, ours, theirs, rounds=rounds) for name, call in calls.items()]


def _time(
    name: str, call: Callable[[Tracker], None], ours: Tracker, theirs: Tracker, *, rounds: int
) -> Figure:
    taken: dict[Tracker, list[float]] = {ours: [], theirs: []}
    for _ in range(rounds):
        for tracker, times in taken.items():
            began = time.perf_counter()
            call(tracker)
            times.append((time.perf_counter() - began) * 1000)
    return Figure(
        name=name, ours=median(taken[ours]), peer=median(taken[theirs]), unit="ms", goal=0.2
    )


def _make_run(tracker: Tracker, number: int) -> str:
    answer = tracker.call("runs/create", {"experiment_id": "0", "start_time": 1 + number})
    id_: str = answer["run"]["info"]["run_id"]  # type: ignore[index]  # JSON
    now = round(time.time() * 1000)
    tracker.call(
        "runs/log-batch",
        {
            "run_id": id_,
            "params": [{"key": "lr", "value": "1"}],
            "metrics": [{"key": "loss", "value": number % 2, "timestamp": now, "step": 0}],
        },
    )
    return id_


@contextmanager
def _platform(folder: Path) -> Iterator[Tracker]:
    root = Root(folder / "root")
    command = [sys.executable, "-m", "stoker.platform", "--root", str(root.folder)]
    began = time.perf_counter()
    with _running([*command, "--port", "0", "--engine", "process", "--slots", "1"]) as process:
        _wait(process, lambda: read_server_info(root) is not None)
        info, keys = read_server_info(root), read_credentials(root)
        token = base64.b64encode(f"{keys.access_key}:{keys.secret_key}".encode()).decode()
        address = info.endpoint if info else ""
        yield _first_answer(process, address, f"Basic {token}", began)


@contextmanager
def _mlflow(folder: Path) -> Iterator[Tracker]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(str(MLFLOW), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
        *("--default-artifact-root", str(folder / "artifacts")),
    ]
    began = time.perf_counter()
    with _running(command) as process:
        yield _first_answer(process, f"http://127.0.0.1:{port}", "", began)


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _first_answer(
    process: subprocess.Popen[bytes], address: str, authorization: str, began: float
) -> Tracker:
    tracker = Tracker(address=address, authorization=authorization, start_seconds=0.0)

    def answers() -> bool:
        try:
            tracker.call("experiments/search", {"max_results": 1})
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    _wait(process, answers)
    seconds = time.perf_counter() - began
    return Tracker(address=address, authorization=authorization, start_seconds=seconds)


def _wait(process: subprocess.Popen[bytes], fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not fact():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CannotMeasure(f"{process.args!r} did not start")
        time.sleep(0.02)


_LOG_SCRIPT = """
import sys, time
import stoker
job = stoker.job()
job.log(0, loss=0.5)
time.sleep(1)
taken = []
for start in range(1, 2001):
    began = time.perf_counter()
    job.log(start, loss=0.5)
    taken.append(time.perf_counter() - began)
    if start % 100 == 0:
        time.sleep(0.02)
print("TAKEN", sorted(taken)[len(taken) // 2] * 1e6)
"""


def _measure_log(tracker: Tracker, folder: Path, rounds: int) -> Figure:
    answer = tracker.call("runs/create", {"experiment_id": "0", "start_time": 1})
    user, _, password = base64.b64decode(tracker.authorization[6:]).decode().partition(":")
    variables = {
        "MLFLOW_TRACKING_URI": tracker.address,
        "MLFLOW_TRACKING_USERNAME": user,
        "MLFLOW_TRACKING_PASSWORD": password,
        "MLFLOW_RUN_ID": answer["run"]["info"]["run_id"],  # type: ignore[index]  # JSON
    }
    taken: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * rounds):
        is_on = turn % 2 == 0
        root = folder / f"job-{turn}"
        root.mkdir()
        environ = {"PATH": "/usr/bin:/bin", "STOKER_ROOT": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", _LOG_SCRIPT],
            env={**environ, **(variables if is_on else {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        line = next(each for each in done.stdout.splitlines() if each.startswith("TAKEN"))
        taken[is_on].append(float(line.split()[1]))
    return Figure(
        name="job.log in the training thread, with a tracking server",
        ours=median(taken[True]),
        peer=median(taken[False]),
        unit="µs",
        goal=1.3,
    )


def _measure_thinned(folder: Path) -> Figure:
    say("1,000,000 points are stored …")
    store = RunStore(folder / "thinned.sqlite")
    for start in range(0, 1_000_000, 50_000):
        part = range(start, start + 50_000)
        store.log("run", [("loss", Point(step, step, float(step % 97))) for step in part])
    times = []
    for _ in range(9):
        began = time.perf_counter()
        store.read_buckets("run", "loss", 1000)
        times.append((time.perf_counter() - began) * 1000)
    store.close()
    return Figure(
        name="1,000,000 points, thinned to 1,000 (peer: 100 ms)",
        ours=median(times),
        peer=100.0,
        unit="ms",
        goal=1.0,
    )


if __name__ == "__main__":
    sys.exit(main())
