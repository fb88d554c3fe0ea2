"""kill -9 of the server at every stage of a job: nothing is lost, doubled or stuck.

STOKER_HOLD stops a job exactly in its stage, so no test depends on who is quicker; one server
has a job in every stage when it is killed.
"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest

from tests.platform.local_server import (
    DEFAULT_BUCKET,
    LocalServer,
    channel,
    statuses,
    wait_until,
)

METRICS = {
    "MetricDefinitions": [
        {"Name": "hopeless", "Regex": r"((a+)+)$"},
        {"Name": "loss", "Regex": r"loss=([0-9.]+);"},
    ]
}
# Says lines, catches a stop, goes on only when the test says so.
SCRIPT = """
    import os, pathlib, signal, sys, time

    def stop(*_):
        print("line caught", flush=True)
        while not pathlib.Path({go!r}).exists():
            time.sleep(0.02)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    print("line first loss=2.0;", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.02)
    print("a" * 40 + "!")
    print("line last loss=0.5;")
    pathlib.Path(os.environ["SM_MODEL_DIR"], "model.bin").write_text("weights")
"""
STAGES = (
    *("queued", "starting", "downloading", "training", "launching"),
    *("drain", "uploading", "uploaded", "cleaning", "measured", "ended"),
)
# Scanned again after the kill; a hopeless expression costs two seconds each time.
SCANNED_TWICE = ("measured",)
PLAIN = ["Starting", "Downloading", "Training", "Uploading", "Completed"]
WHOLE = ["line first loss=2.0;", "line last loss=0.5;"]


class Held:
    """A server whose jobs stand still, each at a point of its life."""

    def __init__(self, server: LocalServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.script = SCRIPT.format(go=str(self.go))

    @property
    def go(self) -> Path:
        return self.folder / "go"

    def start(self, **points: str) -> None:
        """Starts the server: job → where it is to stand still."""
        for job in points:
            (self.folder / job).touch()
        held = [f"{job}/{point}={self.folder / job}" for job, point in points.items()]
        self.server.start(STOKER_HOLD=";".join(held))

    def submit(self, name: str, **parts) -> None:
        self.server.submit(name, self.script, **parts)

    def wait_for(self, *jobs: str) -> None:
        for job in jobs:
            wait_until((self.folder / f"{job}.reached").exists, f"{job} stands still")

    def kill_and_start(self) -> None:
        self.server.kill()
        self.server.start()

    def lines(self, name: str) -> list[str]:
        return [line for line in self.server.log(name) if line.startswith("line ")]

    def require_complete(self, name: str) -> dict:
        job = self.server.wait(name)
        assert job["TrainingJobStatus"] == "Completed", job
        assert statuses(job) == PLAIN
        assert self.lines(name) == WHOLE
        model = job["ModelArtifacts"]["S3ModelArtifacts"]
        assert self.server.archive(model) == {"model.bin": b"weights"}
        return job

    def require_metrics(self, job: dict) -> None:
        """All but the hopeless one, which is named in the log once."""
        assert {m["MetricName"]: m["Value"] for m in job["FinalMetricDataList"]} == {"loss": 0.5}
        said = [line for line in self.server.log(job["TrainingJobName"]) if "given up" in line]
        assert len(said) == 1
        assert "'hopeless'" in said[0]


@pytest.fixture
def held(make_server, tmp_path):
    return Held(make_server(slots=len(STAGES)), tmp_path)


def test_jobs_continue_where_the_server_was_killed(held):
    held.go.touch()
    held.start(**{stage: stage for stage in STAGES})
    for stage in STAGES:
        parts = {"AlgorithmSpecification": METRICS} if stage in SCANNED_TWICE else {}
        held.submit(stage, **parts)
    held.wait_for(*STAGES)
    # Its user does not wait until what is left of it is removed.
    assert held.server.describe("ended")["TrainingJobStatus"] == "Completed"
    held.kill_and_start()
    ended = {stage: held.require_complete(stage) for stage in STAGES}
    for stage in SCANNED_TWICE:
        held.require_metrics(ended[stage])
    assert held.server.leftovers() == []


def test_a_name_is_free_again_before_the_job_that_had_it_is_removed(held):
    held.go.touch()
    held.start(twice="ended")
    held.submit("twice")
    held.wait_for("twice")
    held.server.boto("sagemaker").delete_training_job(TrainingJobName="twice")
    held.submit("twice")
    (held.folder / "twice").unlink()
    held.require_complete("twice")
    assert held.server.leftovers() == []


def test_a_running_job_is_adopted_and_may_end_while_no_server_is_there(held):
    held.server.start()
    held.submit("job", AlgorithmSpecification=METRICS)
    held.server.wait_for_line("job", "line first")
    held.server.kill()
    held.go.touch()
    held.server.start()
    held.require_metrics(held.require_complete("job"))
    assert held.server.leftovers() == []


def test_a_clean_end_of_the_server_leaves_jobs_running(held):
    held.server.start()
    held.submit("job")
    held.server.wait_for_line("job", "line first")
    held.server.stop()
    held.server.start()
    held.go.touch()
    held.require_complete("job")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_code_is_fetched_while_no_server_is_there(held, end):
    held.go.touch()
    held.start(job="training")
    code = held.server.put("code/job/train.py", textwrap.dedent(held.script))
    code = code.removesuffix("/train.py")
    held.submit("job", HyperParameters={"sagemaker_submit_directory": code}, InputDataConfig=[])
    held.wait_for("job")
    (held.folder / "job").unlink()
    run = held.server.root.folder / "processes/job-algo-1-1"
    wait_until((run / "keeper.json").exists, "the host is started")
    getattr(held.server, end)()
    wait_until((run / "exit.json").exists, "the run is over")
    held.server.start()
    held.require_complete("job")
    assert held.server.leftovers() == []


def test_stops_and_interruptions_continue(held):
    stops = {"untold": "tell-asked", "told": "stopping"}
    held.start(**stops, spot="interrupted")
    for name in stops:
        held.submit(name)
    for name in stops:
        held.server.wait_for_line(name, "line first")
        held.server.boto("sagemaker").stop_training_job(TrainingJobName=name)
    held.submit(
        "spot",
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 500, "MaxWaitTimeInSeconds": 500},
        Environment={"STOKER_SPOT": "after=100ms,warning=no"},
        CheckpointConfig={"S3Uri": f"s3://{DEFAULT_BUCKET}/checkpoints"},
    )
    held.wait_for(*stops, "spot")
    held.kill_and_start()
    for name in stops:
        held.server.wait_for_line(name, "line caught")
    held.go.touch()
    for name in stops:
        job = held.server.wait(name)
        assert statuses(job) == [*PLAIN[:3], "Stopping", "Uploading", "Stopped"]
        assert held.lines(name) == [WHOLE[0], "line caught"]
    job = held.server.wait("spot")
    assert statuses(job) == [*PLAIN[:3], "Interrupted", *PLAIN]
    assert held.lines("spot")[-2:] == WHOLE
    assert job["BillableTimeInSeconds"] <= job["TrainingTimeInSeconds"]
    assert held.server.leftovers() == []


def test_a_lost_run_fails_the_job_or_is_tried_again(held):
    held.server.start()
    held.submit("fails")
    held.submit("retried", RetryStrategy={"MaximumRetryAttempts": 1})
    for name in ("fails", "retried"):
        held.server.wait_for_line(name, "line first")
    held.server.kill()
    held.go.touch()
    for name in ("fails", "retried"):
        run = held.server.root.folder / f"processes/{name}-algo-1-1"
        wait_until((run / "exit.json").exists, "the run is over")
        shutil.rmtree(run)
    held.server.start()
    reason = held.server.wait("fails")["FailureReason"]
    assert reason.startswith("InternalServerError: the run of algo-1 vanished")
    assert held.server.wait("retried")["TrainingJobStatus"] == "Completed"
    assert held.lines("retried")[-2:] == WHOLE
    assert held.server.leftovers() == []


def test_a_job_that_reads_a_pipe_fails_rather_than_learn_from_a_part_of_it(held):
    data = held.server.start().put("data/a.txt", "rows").removesuffix("a.txt")
    piped = channel("train", data, InputMode="Pipe")
    held.script = f"""
    import os, time
    with open(os.environ["SM_CHANNEL_TRAIN"] + "_0") as pipe:
        print("line read", pipe.read(), flush=True)
    while not os.path.exists({str(held.go)!r}):
        time.sleep(0.02)
    """
    held.submit("job", InputDataConfig=[piped])
    held.server.wait_for_line("job", "line read rows")
    held.kill_and_start()
    job = held.server.wait("job")
    assert job["FailureReason"].startswith("InternalServerError: the server ended while it fed")
    assert held.server.leftovers() == []


@pytest.mark.docker
def test_containers_are_adopted(make_server, tmp_path):
    held = Held(make_server("docker"), tmp_path)
    held.script = SCRIPT.format(go="/opt/ml/checkpoints/go")
    kept = {"CheckpointConfig": {"S3Uri": f"s3://{DEFAULT_BUCKET}/checkpoints"}}
    held.start(uploading="uploading")
    held.server.put("checkpoints/go", "")
    held.submit("uploading", **kept)
    held.wait_for("uploading")
    held.server.boto("s3").delete_object(Bucket=DEFAULT_BUCKET, Key="checkpoints/go")
    held.submit("training", **kept)
    held.server.wait_for_line("training", "line first")
    held.server.kill()
    (held.server.root.host_dir("training", "algo-1") / "checkpoints/go").touch()
    held.server.start()
    for name in ("uploading", "training"):
        held.require_complete(name)
    assert held.server.leftovers() == []
