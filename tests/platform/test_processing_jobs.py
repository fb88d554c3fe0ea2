"""Processing jobs over the real server, with real processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from botocore.exceptions import ClientError

from stoker.platform.model.root import DEFAULT_BUCKET
from tests.platform.local_server import wait_until
from tests.platform.processing_client import GROUP, IN, OUT, Client, give, take

COPY = """
    import os, pathlib, sys
    print("arguments", sys.argv[1:], os.environ["COLOUR"], flush=True)
    data = pathlib.Path("/opt/ml/processing/input/data")
    seen = " ".join(sorted(path.name for path in data.glob("*.csv")))
    (data / "seen/seen.txt").write_text(seen)
    pathlib.Path("/opt/ml/output/message").write_text("3 rows dropped")
"""
HOSTS = """
    import json, os, pathlib
    config = json.loads(pathlib.Path("/opt/ml/config/resourceconfig.json").read_text())
    job = json.loads(pathlib.Path("/opt/ml/config/processingjobconfig.json").read_text())
    assert job["ProcessingJobArn"].endswith("processing-job/hosts"), job
    host = config["current_host"]
    assert config["hosts"] == ["algo-1", "algo-2"], config
    for file in os.listdir("/opt/ml/processing/input/data"):
        pathlib.Path("/opt/ml/processing/output", file).write_text(host)
"""
WAIT = """
    import pathlib, signal, sys, time
    def leave(*_):
        pathlib.Path("/opt/ml/processing/output/last.txt").write_text("half")
        sys.exit(143)
    signal.signal(signal.SIGTERM, leave)
    pathlib.Path("/opt/ml/processing/output/part.txt").write_text("half")
    print("waiting", flush=True)
    while True:
        time.sleep(1)
"""


@pytest.fixture(scope="module")
def client(module_server):
    return Client(module_server)


def outputs(*given):
    return {"ProcessingOutputConfig": {"Outputs": list(given)}}


@pytest.fixture(scope="module")
def _files(client):
    for name in ("a.csv", "b.csv"):
        client.server.put(f"data/{name}", name)


DATA = f"s3://{DEFAULT_BUCKET}/data"


@pytest.mark.usefixtures("_files")
def test_inputs_reach_the_script_and_outputs_reach_s3(client):
    job = client.run(
        "copy",
        COPY,
        AppSpecification={"ContainerArguments": ["--split", "0.2"]},
        Environment={"COLOUR": "blue"},
        ProcessingInputs=[give("data", DATA, f"{IN}/data")],
        **outputs(take("seen", f"{IN}/data/seen", key="copied")),
        ExperimentConfig={"ExperimentName": "cleaning"},
        Tags=[{"Key": "team", "Value": "vision"}],
    )
    assert job["ProcessingJobStatus"] == "Completed", job.get("FailureReason")
    assert job["ExitMessage"] == "3 rows dropped"
    assert job["CreationTime"] <= job["ProcessingStartTime"] <= job["ProcessingEndTime"]
    assert job["ProcessingInputs"][0]["AppManaged"] is False
    assert client.server.get(f"s3://{DEFAULT_BUCKET}/copied/seen.txt") == b"a.csv b.csv"
    assert "arguments ['--split', '0.2'] blue" in client.log("copy")
    groups = client.server.boto("logs").describe_log_groups()["logGroups"]
    assert GROUP in [each["logGroupName"] for each in groups]
    _require_run(client, job)
    tags = client.sagemaker.list_tags(ResourceArn=job["ProcessingJobArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "vision"}]


def _require_run(client, job):
    """The job is a run of its experiment, with what it was made from and what it made."""
    (run,) = client.sagemaker.list_trial_components(ExperimentName="cleaning")[
        "TrialComponentSummaries"
    ]
    assert run["TrialComponentSource"]["SourceArn"] == job["ProcessingJobArn"]
    described = client.sagemaker.describe_trial_component(
        TrialComponentName=run["TrialComponentName"]
    )
    assert described["TrialComponentName"] == "copy-aws-processing-job"
    assert described["Status"]["PrimaryStatus"] == "Completed"
    assert described["InputArtifacts"]["data"]["Value"] == DATA
    assert described["OutputArtifacts"]["seen"]["Value"] == f"s3://{DEFAULT_BUCKET}/copied"
    produced = client.sagemaker.list_associations(
        SourceArn=described["TrialComponentArn"], AssociationType="Produced"
    )["AssociationSummaries"]
    assert len(produced) == 1


@pytest.mark.usefixtures("_files")
def test_each_host_gets_its_share_and_all_outputs_are_uploaded(client):
    job = client.run(
        "hosts",
        HOSTS,
        ClusterConfig={"InstanceCount": 2},
        ProcessingInputs=[
            give("data", DATA, f"{IN}/data", S3DataDistributionType="ShardedByS3Key")
        ],
        **outputs(take("hosts")),
    )
    assert job["ProcessingJobStatus"] == "Completed", job.get("FailureReason")
    written = {
        key: client.server.get(f"s3://{DEFAULT_BUCKET}/{key}")
        for key in client.server.keys("hosts/")
    }
    assert written == {"hosts/a.csv": b"algo-1", "hosts/b.csv": b"algo-2"}
    streams = client.server.boto("logs").describe_log_streams(
        logGroupName=GROUP, logStreamNamePrefix="hosts/"
    )["logStreams"]
    assert [each["logStreamName"].rpartition("-")[0] for each in streams] == [
        "hosts/algo-1",
        "hosts/algo-2",
    ]


def test_continuous_outputs_are_in_s3_while_the_job_runs_and_a_stop_ends_it(client):
    both = [take("live", mode="Continuous"), take("late", f"{OUT}2")]
    client.submit("live", WAIT, **outputs(*both))
    wait_until(lambda: client.server.keys("live/"), "the file is uploaded")
    assert client.describe("live")["ProcessingJobStatus"] == "InProgress"
    client.sagemaker.stop_processing_job(ProcessingJobName="live")
    assert client.wait("live")["ProcessingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="in status Stopped"):
        client.sagemaker.stop_processing_job(ProcessingJobName="live")


def test_a_job_that_takes_too_long_is_stopped_with_what_it_has(client):
    job = client.run(
        "long",
        WAIT,
        StoppingCondition={"MaxRuntimeInSeconds": 2},
        **outputs(take("long")),
    )
    assert job["ProcessingJobStatus"] == "Stopped"
    assert client.server.get(f"s3://{DEFAULT_BUCKET}/long/last.txt") == b"half"


def test_a_failure_says_what_the_script_said_and_uploads_nothing(client):
    script = """
        import pathlib
        pathlib.Path("/opt/ml/processing/output/bad.csv").write_text("half of it")
        raise ValueError("column 'age' is missing")
    """
    job = client.run("bad", script, **outputs(take("bad")))
    assert job["ProcessingJobStatus"] == "Failed"
    assert (
        job["FailureReason"] == "AlgorithmError: ValueError: column 'age' is missing, exit code: 1"
    )
    assert client.server.keys("bad/") == []
    assert "output 'bad' is not uploaded, because the job failed" in client.log("bad")
    told = client.run(
        "told",
        "open('/opt/ml/output/message', 'w').write('no rows left'); raise SystemExit(7)",
    )
    assert told["FailureReason"] == "AlgorithmError: no rows left, exit code: 7"
    assert told["ExitMessage"] == "no rows left"


def test_a_job_whose_input_is_of_no_use_has_an_end(client):
    manifest = client.server.put("lists/one", json.dumps([{"prefix": f"{DATA}/"}, "../../x"]))
    list_of_files = give("x", manifest, f"{IN}/x", S3DataType="ManifestFile")
    job = client.run("astray", "pass", ProcessingInputs=[list_of_files])
    assert "'../../x' is not a path below a folder" in job["FailureReason"]
    assert job["CreationTime"] <= job["ProcessingEndTime"]
    assert "ProcessingStartTime" not in job


def test_the_commands_know_processing_jobs(client):
    def stoker(*arguments, code=0):
        command = [sys.executable, "-m", "stoker", *arguments]
        place = ["--root", str(client.server.root.folder)]
        done = subprocess.run([*command, *place], capture_output=True, text=True, timeout=240)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    client.submit("shown", WAIT, **outputs(take("shown")))
    wait_until(lambda: "waiting" in client.log("shown"), "it has started")
    assert "InProgress" in stoker("status", "shown")
    assert "shown is Stopped" in stoker("stop", "shown", "--follow")
    assert stoker("logs", "shown", "--follow") == "waiting\n"
    assert f"s3://{DEFAULT_BUCKET}/shown" in stoker("status", "shown")
    assert "(processing)" in stoker("status")
    assert "removed" in stoker("local", "prune", "--older", "0s")
    with pytest.raises(ClientError, match="not found"):
        client.describe("shown")
    assert client.server.keys("shown/"), "the user's own place stays"
    assert "has no job no-such-job" in stoker("logs", "no-such-job", code=2)


def test_jobs_are_listed_apart_from_training_jobs_and_deleted(client):
    names = [
        each["ProcessingJobName"]
        for page in client.sagemaker.get_paginator("list_processing_jobs").paginate(
            PaginationConfig={"PageSize": 1}, NameContains="listed", SortBy="Name"
        )
        for each in page["ProcessingJobSummaries"]
    ]
    assert names == []
    for name in ("listed-2", "listed-1"):
        client.run(name, "print('done')")
    found = client.sagemaker.list_processing_jobs(
        NameContains="LISTED", SortBy="Name", SortOrder="Descending", MaxResults=1
    )
    assert [each["ProcessingJobName"] for each in found["ProcessingJobSummaries"]] == ["listed-2"]
    assert "NextToken" in found
    assert client.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []
    with pytest.raises(ClientError, match="a processing job with this name already exists"):
        client.submit("listed-1", "pass")
    client.sagemaker.delete_processing_job(ProcessingJobName="listed-1")
    with pytest.raises(ClientError, match="Requested resource not found"):
        client.describe("listed-1")
    client.server.boto("sagemaker").get_waiter("processing_job_completed_or_stopped").wait(
        ProcessingJobName="listed-2"
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"ProcessingInputs": [give("code", DATA, f"{IN}/x")]}, "'code' is repeated"),
        ({"ProcessingInputs": [give("x", DATA, "/tmp/x")]}, "must be below /opt/ml/processing/"),
        ({"ProcessingInputs": [give("x", DATA, f"{IN}/../../x")]}, "must be below"),
        ({"ProcessingInputs": [give("x", DATA, f"{IN}/x", S3InputMode="Pipe")]}, "Use File"),
        ({"ProcessingInputs": [give("x", DATA, f"{IN}/code/")]}, "is that of input 'code'"),
        (
            {"ProcessingInputs": [give("x", f"s3://{DEFAULT_BUCKET}/gone", f"{IN}/x")]},
            "No S3 objects found",
        ),
        (
            outputs({**take("x"), "FeatureStoreOutput": {"FeatureGroupName": "x"}}),
            "FeatureStoreOutput is not supported",
        ),
        (outputs(take("x", bucket="gone-bucket")), "The S3 bucket gone-bucket does not exist"),
        ({"ClusterConfig": {"InstanceCount": 21}}, "processing job usage"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_files")
def test_a_request_that_cannot_work_is_refused(client, parts, words):
    with pytest.raises(ClientError, match=words):
        client.submit("refused", "pass", **parts)


def test_a_job_continues_when_its_server_was_killed(server):
    client = Client(server)
    go = server.root.folder / "go"
    script = f"""
        import pathlib, time
        print("started", flush=True)
        while not pathlib.Path({json.dumps(str(go))}).exists():
            time.sleep(0.1)
        pathlib.Path("/opt/ml/processing/output/end.txt").write_text("whole")
    """
    client.submit("killed", script, **outputs(take("killed")))
    wait_until(lambda: "started" in client.log("killed"), "it has started")
    server.kill()
    server.start()
    go.touch()
    assert client.wait("killed")["ProcessingJobStatus"] == "Completed"
    assert server.get(f"s3://{DEFAULT_BUCKET}/killed/end.txt") == b"whole"
    assert client.log("killed").count("started") == 1
