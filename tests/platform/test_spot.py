"""Spot: interrupted on schedule, resumed from its checkpoints, within MaxWait."""

from __future__ import annotations

from tests.platform.local_server import DEFAULT_BUCKET, statuses, wait_until

SCRIPT = """
    import os, pathlib, signal, sys, time

    def warned(*_):
        print("warned", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, warned)
    saved = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "step")
    if saved.exists():
        print("resumed at", saved.read_text(), flush=True)
        while not pathlib.Path({go!r}).exists():
            time.sleep(0.02)
        pathlib.Path(os.environ["SM_MODEL_DIR"], "model").write_text("done")
        sys.exit(0)
    saved.with_suffix(".sagemaker-ignore").write_text("7")
    saved.with_suffix(".sagemaker-ignore").rename(saved)
    while True:
        time.sleep(0.02)
"""
RUN = ["Starting", "Downloading", "Training", "Interrupted"]


def submit(server, name, spot, **limits):
    server.submit(
        name,
        SCRIPT.format(go=str(server.root.folder / "go")),
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 500, "MaxWaitTimeInSeconds": 500, **limits},
        Environment={"STOKER_SPOT": spot},
        CheckpointConfig={"S3Uri": f"s3://{DEFAULT_BUCKET}/{name}"},
    )


def test_jobs_are_interrupted_three_times_and_resume(make_server, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    names = {"warned": "yes", "unwarned": "no"}
    held = ";".join(f"{name}/tell-interrupted={hold}" for name in names)
    server = make_server().start(STOKER_HOLD=held)
    for name, warning in names.items():
        submit(server, name, f"every=100ms,times=3,pause=200ms,warning={warning}")
    for name in names:
        key = f"{name}/step"
        wait_until(lambda key=key: key in server.keys(key), f"{name} has saved")
    hold.unlink()
    for name in names:
        server.wait_for(name, lambda job: statuses(job).count("Interrupted") == 3)
    (server.root.folder / "go").touch()
    for name in names:
        job = server.wait(name)
        assert statuses(job) == [*RUN * 3, *RUN[:3], "Uploading", "Completed"]
        lines = server.log(name)
        assert [line for line in lines if line.startswith("resumed")][-1] == "resumed at 7"
        assert ("warned" in lines) == (name == "warned")
        assert job["BillableTimeInSeconds"] <= job["TrainingTimeInSeconds"]
        assert server.archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"model": b"done"}
    assert server.leftovers() == []


def test_a_job_that_waits_for_capacity_ends_at_max_wait_or_when_stopped(server):
    submit(server, "late", "after=10ms,pause=1h", MaxRuntimeInSeconds=3, MaxWaitTimeInSeconds=3)
    submit(server, "stopped", "after=10ms,pause=1h")
    server.wait_for_secondary("stopped", "Interrupted")
    server.boto("sagemaker").stop_training_job(TrainingJobName="stopped")
    assert statuses(server.wait("stopped")) == [*RUN, "Stopping", "Uploading", "Stopped"]
    job = server.wait("late")
    assert job["TrainingJobStatus"] == "Stopped"
    assert statuses(job)[-1] == "MaxWaitTimeExceeded"
