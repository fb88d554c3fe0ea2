"""StopTrainingJob and MaxRuntime: SIGTERM, the grace time, SIGKILL; artifacts all the same."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.platform.local_server import statuses, wait_until

POLITE = """
    import os, pathlib, signal, sys, time

    def stop(*_):
        pathlib.Path(os.environ["SM_MODEL_DIR"], "model").write_text("saved on the way out")
        print("bye")
        sys.exit(3)

    signal.signal(signal.SIGTERM, stop)
    print("started", flush=True)
    while True:
        time.sleep(0.02)
"""
STUBBORN = """
    import os, pathlib, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path(os.environ["SM_MODEL_DIR"], "model").write_text("saved before")
    print("started", flush=True)
    while True:
        time.sleep(0.02)
"""


@pytest.mark.parametrize(
    ("script", "grace", "model"),
    [(POLITE, "60", b"saved on the way out"), (STUBBORN, "0.5", b"saved before")],
    ids=["polite", "stubborn"],
)
def test_a_stopped_job_keeps_its_model(make_server, script, grace, model):
    server = make_server().start(STOKER_GRACE_SECONDS=grace)
    client = server.boto("sagemaker")
    server.submit("job", script)
    server.wait_for_line("job", "started")
    client.stop_training_job(TrainingJobName="job")
    client.stop_training_job(TrainingJobName="job")  # once more is no error
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Stopped"
    assert statuses(job)[-4:] == ["Training", "Stopping", "Uploading", "Stopped"]
    assert server.archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"model": model}
    assert "FailureReason" not in job
    with pytest.raises(ClientError, match="in status Stopped"):
        client.stop_training_job(TrainingJobName="job")
    assert server.leftovers() == []


def test_a_job_that_runs_too_long_is_stopped(server):
    server.submit("long", POLITE, StoppingCondition={"MaxRuntimeInSeconds": 1})
    job = server.wait("long")
    assert job["TrainingJobStatus"] == "Stopped"
    assert statuses(job)[-3:] == ["Training", "Uploading", "MaxRuntimeExceeded"]


def test_a_job_is_stopped_before_it_trains(make_server, tmp_path):
    stages = ("starting", "downloading")
    for stage in stages:
        (tmp_path / stage).touch()
    held = ";".join(f"{stage}/{stage}={tmp_path / stage}" for stage in stages)
    server = make_server().start(STOKER_HOLD=held)
    for stage in stages:
        server.submit(stage)
        wait_until((tmp_path / f"{stage}.reached").exists, "it stands still")
        server.boto("sagemaker").stop_training_job(TrainingJobName=stage)
        (tmp_path / stage).unlink()
    for stage in stages:
        job = server.wait(stage)
        assert statuses(job)[-2:] == ["Stopping", "Stopped"]
        assert "TrainingStartTime" not in job
    assert server.leftovers() == []
