"""The Docker engine goes away in the middle of a search, and comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform import docker_proxy
from tests.platform.local_server import statuses, wait_until
from tests.platform.tuning.tuning_jobs import OVER, describe, trials, tune, value

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

# Reports a value, and a second one when it may end.
SCRIPT = """
    import argparse, os, time
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float)
    rate = parser.parse_args().rate
    print(f"val_acc={rate:.6f}", flush=True)
    while not os.path.exists("/opt/ml/output/go"):
        time.sleep(0.1)
    print(f"val_acc={rate + 0.001:.6f}", flush=True)
"""
RANGES = {
    "ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0.1", "MaxValue": "0.9"}],
}


class Proxy:
    """The way of the server to the engine."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        argv = [sys.executable, docker_proxy.__file__, str(self.socket)]
        self.process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        wait_until(self.socket.exists, "the proxy listens")

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def proxy(tmp_path):
    made = Proxy(tmp_path / "docker.sock")
    made.start()
    yield made
    made.end()


def test_a_search_waits_for_its_engine_and_loses_no_trial(proxy, make_server):
    server = make_server("docker")
    server.environment["DOCKER_HOST"] = f"unix://{proxy.socket}"
    server.start()
    tune(
        server,
        "gone",
        SCRIPT,
        config={"ParameterRanges": RANGES},
        limits={"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 2},
    )
    wait_until(lambda: len([t for t in trials(server, "gone") if value(t)]) == 2, "two values")
    first, second = (row["TrainingJobName"] for row in trials(server, "gone"))

    def release(*jobs: str) -> None:
        for job in jobs:
            folder = server.root.host_dir(job, "algo-1") / "output"
            if folder.exists():
                (folder / "go").touch()

    proxy.end()
    release(first)  # ends while the server cannot see it
    found = subprocess.check_output(["docker", "ps", "-q", "--filter", f"name={second}"])
    subprocess.run(["docker", "kill", *found.decode().split()], check=True)
    for job in (first, second):
        waits = server.wait_for_secondary(job, "Pending")["SecondaryStatusTransitions"][-1]
        assert waits["StatusMessage"].startswith("Waiting for the engine: the Docker engine has")
        assert "fix: start it" in waits["StatusMessage"]
    proxy.start()

    def ended() -> bool:
        release(*(row["TrainingJobName"] for row in trials(server, "gone")))
        return describe(server, "gone")["HyperParameterTuningJobStatus"] in OVER

    wait_until(ended, "the end of the search", 500)
    job = describe(server, "gone")
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    assert job["TrainingJobStatusCounters"]["Completed"] == 3
    for row in trials(server, "gone"):
        rate = float(row["TunedHyperParameters"]["rate"])
        assert value(row) == pytest.approx(rate + 0.001, abs=1e-6)
    shown = {job: statuses(server.describe(job)) for job in (first, second)}
    assert shown[first].count("Starting") == 1
    assert shown[second].count("Starting") == 2, "what the engine lost is trained again"
    assert len([line for line in server.log(first) if line.startswith("val_acc")]) == 2
    wait_until(lambda: not server.leftovers(), "nothing is left")
