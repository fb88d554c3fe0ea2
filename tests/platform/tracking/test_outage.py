"""A tracking server that ends during a training and comes back before its end."""

from __future__ import annotations

import json
import subprocess
import sys

from stoker.tracking.records import Run
from stoker.tracking.store import RunStore
from tests.platform.local_server import wait_until

SCRIPT = """
import sys, time
from pathlib import Path
import stoker
folder = Path(sys.argv[1])
for part in range(3):
    for step in range(10 * part, 10 * part + 10):
        stoker.job().log(step, loss=step / 10)
    print("PART", part, flush=True)
    while not (folder / str(part)).exists():
        time.sleep(0.02)
"""


def test_metrics_of_an_outage_are_delivered_after_it(make_server, tmp_path):
    server = make_server().start()
    api = server.boto("sagemaker")
    api.create_trial_component(TrialComponentName="far")
    keys = json.loads(server.root.credentials_file.read_text())
    (tmp_path / "job").mkdir()
    own = {
        "STOKER_ROOT": str(tmp_path / "job"),
        "MLFLOW_TRACKING_URI": server.endpoint,
        "MLFLOW_TRACKING_USERNAME": keys["access_key"],
        "MLFLOW_TRACKING_PASSWORD": keys["secret_key"],
        "MLFLOW_RUN_ID": find_id(server),
    }
    log = tmp_path / "log"
    with log.open("wb") as said:
        training = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path)],
            env={**server.environ(), **own},
            stdout=said,
            stderr=said,
        )
    try:
        wait_until(lambda: count(server) == 10, "the first metrics are delivered")
        address = server.endpoint
        server.kill()
        (tmp_path / "0").touch()
        wait_until(lambda: "MLflow does not take metrics now" in log.read_text(), "the warning")
        (tmp_path / "1").touch()
        wait_until(lambda: "PART 2" in log.read_text(), "the training continues")
        server.start()
        assert server.endpoint == address
        (tmp_path / "2").touch()
        assert training.wait(120) == 0
    finally:
        training.kill()
        training.wait(60)
    assert log.read_text().count("MLflow does not take") == 1
    wait_until(lambda: count(server) == 30, "all metrics are delivered")


def find_id(server) -> str:
    """MLflow's id of the one run."""
    store = RunStore(server.root.runs_database)
    try:
        return store.read(Run, "far").id
    finally:
        store.close()


def count(server) -> int:
    found = server.boto("sagemaker").describe_trial_component(TrialComponentName="far")
    return sum(each["Count"] for each in found["Metrics"])
