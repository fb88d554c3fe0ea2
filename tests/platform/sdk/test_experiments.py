"""Unmodified code of both SDKs with the Run API; its runs and a job's run, read by Analytics."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platform.local_server import channel
from tests.sdks import run_sdk

pytestmark = pytest.mark.timeout(900)
SCRIPT = Path(__file__).with_name("experiments.py")


@pytest.fixture(params=["v2", "v3"])
def seen(request, server, tmp_path, monkeypatch):
    """A job within a run of the experiment `jobs`, then the script of a user."""
    script = "for i in range(4): print(f'loss={1 / (i + 1)}')"
    definitions = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    server.submit(
        "In-Experiment",
        script,
        HyperParameters={"lr": "0.25"},
        AlgorithmSpecification={"MetricDefinitions": definitions},
        ExperimentConfig={
            "ExperimentName": "jobs",
            "TrialName": "Default-Run-Group-jobs",
            "RunName": "jobs-train",
        },
    )
    job = server.wait("In-Experiment")
    monkeypatch.chdir(tmp_path)
    arn = job["TrainingJobArn"]
    return run_sdk(request.param, SCRIPT, request.param, arn, environ=server.sdk_environ())


def test_runs_and_jobs_are_seen_with_equal_numbers(seen):
    assert seen["runs"] == ["first", "second"]
    first = next(row for row in seen["rows"] if row["TrialComponentName"].endswith("-first"))
    second = next(row for row in seen["rows"] if row["TrialComponentName"].endswith("-second"))
    assert (first["lr"], first["optimizer"], first["again"]) == (0.5, "adam", "yes")
    assert (first["loss - Count"], first["loss - Last"], first["loss - Max"]) == (26, 0.01, 1.0)
    assert first["accuracy - Last"] == 0.75
    assert first["report - Value"].startswith("s3://")
    assert second["lr"] == 0.1
    (row,) = seen["job_rows"]
    assert row["TrialComponentName"] == "jobs-train"
    assert row["SourceArn"].endswith("training-job/in-experiment")
    assert (row["lr"], row["loss - Count"], row["loss - Last"]) == (0.25, 4, 0.25)
    assert (seen["in_job"], row["from_script - Last"]) == (["jobs", "train"], 7.0)


def test_sagemakers_lineage_names_data_code_and_image_of_a_job(server, tmp_path, monkeypatch):
    data = server.put("data/lineage/a.csv", "1,2")
    server.submit("line", InputDataConfig=[channel("train", data)])
    model = server.wait("line")["ModelArtifacts"]["S3ModelArtifacts"]
    monkeypatch.chdir(tmp_path)
    script, component = SCRIPT.with_name("lineage_v2.py"), "line-aws-training-job"
    seen = run_sdk("v2", script, data, model, component, environ=server.sdk_environ())
    assert seen["hash"].startswith("sha256:")
    assert (seen["models"], seen["is_artifact"]) == ([True], ["ModelArtifact"])
    assert seen["above"] == ["DataSet", "Image", "SageMakerTrainingJob", "SourceCode"]
    assert seen["table"] == ["DataSet", "Image", "Model", "SourceCode"]
    assert (seen["author"], seen["associated"]) == ("b", [True])
    assert (seen["status"], seen["contexts"]) == ("Completed", ["release"])
