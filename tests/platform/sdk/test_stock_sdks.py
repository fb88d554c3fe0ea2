"""Unmodified SDK v2 and v3 code with ml.* instance types runs here as it would in the cloud.

Each SDK is one process of a user that submits six jobs; the tests look at what became of them.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.sdks import IMAGE, run_sdk, sdk_python

# Six jobs are quick on a quiet machine; on a busy one they get the time they need.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
HERE = Path(__file__).parent


@pytest.fixture(scope="module", params=["v2", "v3"])
def jobs(request, platform, points):
    """What DescribeTrainingJob said of each job at its end, and all that the SDK printed."""
    return run_sdk(
        request.param,
        HERE / f"scenario_{request.param}.py",
        *(IMAGE, str(HERE / "source"), str(points)),
        environ=platform.environ,
    )


def model(platform, job) -> dict[str, str]:
    """The files of a job's model.tar.gz."""
    with tarfile.open(platform.file(job["ModelArtifacts"]["S3ModelArtifacts"])) as archive:
        return {m.name: archive.extractfile(m).read().decode() for m in archive if m.isfile()}


def statuses(job) -> list[str]:
    """From the first download on: before it, a job may have waited for its turn."""
    every = [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    return every[every.index("Downloading") :]


def test_a_job_trains_and_its_log_is_streamed(jobs, platform):
    job = jobs["train"]
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert statuses(job) == ["Downloading", "Training", "Uploading", "Completed"]
    assert json.loads(model(platform, job)["model.json"])["weight"] == pytest.approx(2, abs=0.3)
    assert "epoch 2 loss=" in jobs["printed"]


def test_our_image_runs_in_place_of_the_one_of_aws_and_the_log_says_so(jobs):
    image = jobs["train"]["AlgorithmSpecification"]["TrainingImage"]
    if "pytorch-training:" in image:  # SDK v2 was given no image
        assert f"asked for {image}, running stoker:cpu (PyTorch 2.13.0" in jobs["printed"]
        assert "not in stoker:cpu: framework_version 2.3 (it has 2.13.0" in jobs["printed"]
        (training,) = [
            each["StatusMessage"]
            for each in jobs["train"]["SecondaryStatusTransitions"]
            if each["Status"] == "Training"
        ]
        assert f"Asked for {image}, running stoker:cpu" in training


def test_its_metrics_are_read_from_the_log(jobs):
    (metric,) = jobs["train"]["FinalMetricDataList"]
    assert metric["MetricName"] == "loss"
    assert f"epoch 2 loss={metric['Value']:.4f}" in jobs["printed"]


def test_tensorboard_reads_its_events_from_s3(jobs, platform):
    job = jobs["train"]
    place = f"{job['TensorBoardOutputConfig']['S3OutputPath']}/{job['TrainingJobName']}"
    tensorboard = sdk_python("v2").with_name("tensorboard")
    done = subprocess.run(
        [tensorboard, "--inspect", "--logdir", f"{place}/tensorboard-output"],
        env=platform.environ,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "scalars\n   loss\n" in done.stdout


def test_torchrun_spans_two_hosts(jobs, platform):
    job = jobs["two_nodes"]
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert model(platform, job) == {"total.txt": "3"}


def test_spot_is_interrupted_three_times_and_resumed(jobs, platform):
    job = jobs["spot"]
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    round_trip = ["Interrupted", "Starting", "Downloading", "Training"]
    assert statuses(job) == [
        *("Downloading", "Training"),
        *(round_trip * 3),
        *("Uploading", "Completed"),
    ]
    assert model(platform, job) == {"steps.txt": "200"}
    assert job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]


def test_stop_leaves_time_to_save(jobs, platform):
    job = jobs["stopped"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert model(platform, job) == {"saved.txt": "in time"}


def test_max_runtime_ends_a_job(jobs, platform):
    job = jobs["too_long"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    assert job["TrainingTimeInSeconds"] >= 5


def test_a_failure_tells_its_reason(jobs):
    job = jobs["broken"]
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError: ")
    assert "the fire is out" in job["FailureReason"]
    assert "the fire is out" in jobs["printed"].partition("raised:")[2]
