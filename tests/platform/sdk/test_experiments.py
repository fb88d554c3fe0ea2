"""Unmodified code of both SDKs with the Run API; its runs and a job's run, read by Analytics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.platform.local_server import channel
from tests.sdks import run_sdk, sdk_python

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


def test_one_job_has_equal_numbers_for_run_analytics_and_mlflow(server, tmp_path, monkeypatch):
    keys = json.loads(server.root.credentials_file.read_text())
    environ = {
        **server.sdk_environ(),
        "MLFLOW_TRACKING_URI": server.endpoint,
        "MLFLOW_TRACKING_USERNAME": keys["access_key"],
        "MLFLOW_TRACKING_PASSWORD": keys["secret_key"],
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    monkeypatch.chdir(tmp_path)
    seen = run_sdk("v2", SCRIPT.with_name("job_in_run_v2.py"), environ=environ)
    found = run_sdk("v3", SCRIPT.with_name("search_runs.py"), environ=environ)
    assert seen["by_run"] == ["val:loss", 0.1, 0.1, 0.7, 7]
    assert seen["by_run"] == seen["by_analytics"] == found["by_mlflow"]
    assert (seen["params"], found["params"]) == (
        [0.7, 0.7, "from the client"],
        ["0.7", "from the client"],
    )
    api = server.boto("sagemaker")
    run = api.describe_trial_component(TrialComponentName=seen["component"])
    above = api.query_lineage(StartArns=[run["TrialComponentArn"]], Direction="Ascendants")[
        "Vertices"
    ]
    assert sorted(each["Type"] for each in above) == ["DataSet", "Image", "SourceCode"]


def test_smexperiments_in_a_job_continues_the_jobs_trial_component(server):
    (packages,) = sdk_python("v2").parents[1].glob("lib/python3*/site-packages")
    script = """
        from smexperiments.tracker import Tracker
        with Tracker.load() as tracker:
            tracker.log_parameters({"depth": 3})
            for i in range(5):
                tracker.log_metric("acc", i / 10, iteration_number=i)
            tracker.log_output("report", "s3://bucket/report")
    """
    server.submit(
        "in-job",
        script,
        Environment={"PYTHONPATH": str(packages)},
        ExperimentConfig={"ExperimentName": "e", "TrialComponentDisplayName": "Training"},
    )
    assert server.wait("in-job")["TrainingJobStatus"] == "Completed", server.log("in-job")
    seen = server.boto("sagemaker").describe_trial_component(
        TrialComponentName="in-job-aws-training-job"
    )
    (acc,) = seen["Metrics"]
    assert (acc["MetricName"], acc["Count"], acc["Last"]) == ("acc", 5, 0.4)
    assert (seen["DisplayName"], seen["Parameters"]["depth"]) == ("Training", {"NumberValue": 3.0})
    assert seen["OutputArtifacts"]["report"]["Value"] == "s3://bucket/report"
    assert seen["Status"]["PrimaryStatus"] == "Completed"
