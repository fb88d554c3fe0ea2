"""KeepAlivePeriodInSeconds: the pool a job leaves, who may take it, and when it ends."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoker.platform.engines.engine import root_id
from tests.platform.local_server import LocalServer, wait_until

pytestmark = pytest.mark.functional

KEPT = {"KeepAlivePeriodInSeconds": 3600}
# What a job must not find of the one before it, and what it must.
TRACES = """
import os, pathlib
ml = pathlib.Path(os.environ.get("STOKER_ROOT", "/opt/ml"))
cache = pathlib.Path(os.environ["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"])
places = [ml / "model/left", ml / "left"]
if str(ml) == "/opt/ml":  # a process shares this machine's other folders
    places += [pathlib.Path("/tmp/left"), pathlib.Path("/home/left")]
print("found", [str(p) for p in places if p.exists()], (cache / "left").exists())
for place in [*places, cache / "left"]:
    place.write_text("x")
print("variables", sorted(set(os.environ) & {"OLDPWD", "PWD", "SHLVL", "_"}), os.environ["TEXT"])
"""
TEXT = "two\nlines, 'quotes' and $HOME"


def pool(server: LocalServer, name: str) -> dict[str, Any]:
    return server.describe(name)["WarmPoolStatus"]


def run(server: LocalServer, name: str, script: str = TRACES, **parts: Any) -> list[str]:
    """A job to its end; the lines of its log."""
    parts.setdefault("ResourceConfig", KEPT)
    parts.setdefault("Environment", {"TEXT": TEXT})
    server.submit(name, script, **parts)
    ended = server.wait(name)
    assert ended["TrainingJobStatus"] == "Completed", ended["FailureReason"]
    return server.log(name)


def test_a_pool_is_kept_passed_on_changed_and_ended(server):
    sagemaker = server.boto("sagemaker")
    first = run(server, "first")
    assert "found [] False" in first
    assert pool(server, "first")["Status"] == "Available"
    assert "ReusedByJob" not in pool(server, "first")

    # Another instance type does not match, and a job without a period leaves no pool.
    run(server, "other", "print(1)", ResourceConfig={"InstanceType": "ml.m5.xlarge"})
    assert "WarmPoolStatus" not in server.describe("other")
    assert pool(server, "first")["Status"] == "Available"

    server.stop()
    server.start()  # a pool outlives its server
    sagemaker = server.boto("sagemaker")
    assert "found [] True" in run(server, "second")
    reused = pool(server, "first")
    assert (reused["Status"], reused["ReusedByJob"]) == ("Reused", "second")
    assert reused["ResourceRetainedBillableTimeInSeconds"] >= 0
    assert pool(server, "second")["Status"] == "Available"

    def names(status: str) -> list[str]:
        listed = sagemaker.list_training_jobs(WarmPoolStatusEquals=status)
        summaries = listed["TrainingJobSummaries"]
        assert all(each["WarmPoolStatus"]["Status"] == status for each in summaries)
        return [each["TrainingJobName"] for each in summaries]

    assert (names("Available"), names("Reused"), names("InUse")) == (["second"], ["first"], [])

    with pytest.raises(ClientError, match="status Completed"):
        update(sagemaker, "first", 60)
    update(sagemaker, "second", 1800)
    described = server.describe("second")
    assert described["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 1800
    assert described["WarmPoolStatus"]["Status"] == "Available"
    update(sagemaker, "second", 0)
    wait_until(lambda: pool(server, "second")["Status"] == "Terminated", "the pool ends")
    wait_until(lambda: not any(server.root.warm_pools_dir.iterdir()), "its folder is removed")
    assert "found [] False" in run(server, "third"), "the cache is gone with its pool"


def update(sagemaker: Any, name: str, seconds: int) -> None:
    resources = {"KeepAlivePeriodInSeconds": seconds}
    sagemaker.update_training_job(TrainingJobName=name, ResourceConfig=resources)


def test_a_failed_job_keeps_its_pool_and_a_running_one_uses_it(server):
    server.submit("failing", "raise SystemExit(3)", ResourceConfig=KEPT)
    assert server.wait("failing")["TrainingJobStatus"] == "Failed"
    assert pool(server, "failing")["Status"] == "Available"
    server.submit("waiting", "import time; print('here', flush=True); time.sleep(600)")
    server.wait_for_line("waiting", "here")
    assert pool(server, "failing")["ReusedByJob"] == "waiting"
    assert "WarmPoolStatus" not in server.describe("waiting"), "it leaves none"
    update(server.boto("sagemaker"), "waiting", 3600)
    assert pool(server, "waiting") == {"Status": "InUse"}
    server.boto("sagemaker").stop_training_job(TrainingJobName="waiting")
    server.wait("waiting")
    assert pool(server, "waiting")["Status"] == "Available"


def containers(server: LocalServer) -> dict[str, str]:
    """Container id → name."""
    label = f"label=stoker.root={root_id(server.root.folder)}"
    listed = subprocess.check_output(
        ["docker", "ps", "--all", "--no-trunc", "--filter", label, "--format", "{{json .}}"],
        text=True,
    )
    found = [json.loads(line) for line in listed.splitlines()]
    return {each["ID"]: each["Names"] for each in found}


def wait_for_standby(server: LocalServer, job: str) -> str:
    """The id of the container that a job has left to wait."""

    def find() -> str | None:
        named = [i for i, name in containers(server).items() if name.startswith(f"{job}-warm")]
        return named[0] if named else None

    return wait_until(find, f"{job} leaves a container")


@pytest.mark.docker
def test_the_next_job_gets_a_clean_container_that_waited(make_server):
    server = make_server("docker").start()
    cold = run(server, "first")
    assert "found [] False" in cold
    waited = wait_for_standby(server, "first")

    seen = "import time; print('here', flush=True); time.sleep(600)"
    server.submit("second", TRACES + seen, ResourceConfig=KEPT, Environment={"TEXT": TEXT})
    server.wait_for_line("second", "here")
    [(running, name)] = containers(server).items()
    assert running == waited, "the container that waited runs the job"
    assert name.startswith("second-algo-1-1-")
    log = server.log("second")
    assert "found [] True" in log, "only the cache is left of the job before"
    variables = next(line for line in cold if line.startswith("variables"))
    assert log[log.index(variables) + 1] == "lines, 'quotes' and $HOME", "the same environment"

    server.kill()  # the job continues; the next server knows it by its new name
    server.start()
    server.boto("sagemaker").stop_training_job(TrainingJobName="second")
    assert server.wait("second")["TrainingJobStatus"] == "Stopped"

    # A container that is gone, or was stopped, costs only its time.
    subprocess.check_output(["docker", "kill", wait_for_standby(server, "second")])
    assert "found [] True" in run(server, "third")
    wait_for_standby(server, "third")
    server.stop()
    assert containers(server) == {}, "no container waits without a server"
    server.start()
    wait_for_standby(server, "third")

    # Data that is mounted needs a container of its own.
    folder = server.root.folder.with_name("data")
    folder.mkdir()
    for number in range(101):
        (folder / f"{number}.txt").write_text(str(number))
    source = {"S3DataType": "S3Prefix", "S3Uri": folder.as_uri()}
    channels = [{"ChannelName": "train", "DataSource": {"S3DataSource": source}}]
    counted = "import os; print('files', len(os.listdir('/opt/ml/input/data/train')))"
    assert "files 101" in run(server, "fourth", counted, InputDataConfig=channels)
    assert pool(server, "third")["ReusedByJob"] == "fourth"
    update(server.boto("sagemaker"), "fourth", 0)
    wait_until(lambda: not containers(server), "the last container is removed")
