"""A job at the wire: what a stock client sees from its creation to its end."""

from __future__ import annotations

import json
import os

import pytest
from botocore.exceptions import ClientError

from tests.platform.local_server import DEFAULT_BUCKET, ROLE, channel, statuses, wait_until

TRAIN = """
    import os, pathlib
    data = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"], "a.txt").read_text()
    print("read", data, "for", os.environ["TRAINING_JOB_NAME"], os.environ["MINE"])
    pathlib.Path(os.environ["SM_MODEL_DIR"], "model.bin").write_text("weights")
    pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "notes.txt").write_text(data)
    print("last line without an end", end="")
"""
WAITS = """
    import pathlib, time
    print("started", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.02)
"""
HOST = """
    import os, pathlib
    host = os.environ["SM_CURRENT_HOST"]
    print("I am", host, "of", os.environ["SM_HOSTS"])
    pathlib.Path(os.environ["SM_MODEL_DIR"], host).write_text(host)
"""


def test_a_job_runs_from_its_creation_to_its_model(server):
    data = server.put("data/a.txt", "rows").removesuffix("a.txt")
    parts = {"InputDataConfig": [channel("train", data)], "Environment": {"MINE": "me"}}
    server.submit("plain", TRAIN, **parts)
    job = server.wait("plain")
    assert job["TrainingJobStatus"] == "Completed", (job, server.log("plain"))
    assert statuses(job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert all(t["StatusMessage"] and t["EndTime"] for t in job["SecondaryStatusTransitions"])
    model = job["ModelArtifacts"]["S3ModelArtifacts"]
    assert model.endswith("/out/plain/output/model.tar.gz")
    assert server.archive(model) == {"model.bin": b"weights"}
    output = server.archive(model.replace("model.tar", "output.tar"))
    assert json.loads(output.pop("stoker/run.json"))["status"] == "Completed"
    assert output == {"notes.txt": b"rows"}
    lines = server.log("plain")
    assert "read rows for plain me" in lines
    assert "last line without an end" in lines
    assert job["TrainingTimeInSeconds"] >= job["BillableTimeInSeconds"] >= 1
    assert job["RoleArn"] == ROLE
    assert job["HyperParameters"]["sagemaker_program"] == "train.py"
    assert server.leftovers() == []


def test_a_failure_says_why_and_a_missing_program_too(server):
    server.submit("raises", "print('so far so good')\nraise ValueError('no such thing')")
    server.submit("nameless", HyperParameters={"sagemaker_program": "other.py"})
    server.submit("entry", AlgorithmSpecification={"ContainerEntrypoint": ["/no/such/program"]})
    raises = server.wait("raises")
    assert raises["FailureReason"].startswith("AlgorithmError: ")
    assert "no such thing" in raises["FailureReason"]
    assert raises["FailureReason"].endswith(", exit code: 1")
    assert statuses(raises)[-2:] == ["Uploading", "Failed"]
    nameless = server.wait("nameless")
    assert "other.py" in nameless["FailureReason"]
    entry = server.wait("entry")
    assert entry["FailureReason"].startswith("ClientError: algo-1 cannot start")
    assert statuses(entry)[-2:] == ["Training", "Failed"]
    assert server.leftovers() == []


def test_what_a_user_would_look_for_in_vain_is_said_in_one_line(server):
    script = """
    import os, pathlib, sys
    folder = pathlib.Path(os.environ["SM_OUTPUT_DIR"], "tensorboard")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.out.tfevents.1").write_text("x")
    sys.stderr.buffer.write(bytes(range(256)) * 8)
    raise ValueError("the fire is out" + chr(0) * 50)
    """
    server.submit("lost", script, ExperimentConfig={"TrialName": "no-such-trial"})
    reason = server.wait("lost")["FailureReason"]
    assert "ValueError: the fire is out(binary)" in reason
    assert all(letter.isprintable() or letter == "\n" for letter in reason)
    said = [line for line in server.log("lost") if line.startswith("[stoker] ")]
    for words in ("TensorBoardOutputConfig", "model.tar.gz is empty", "no-such-trial"):
        assert len([line for line in said if words in line]) == 1, said


def test_a_job_gets_its_share_of_the_cpus_and_is_told_so(make_server):
    server = make_server(slots=2).start()
    script = "import os; print('threads', os.environ['OMP_NUM_THREADS'])"
    server.submit("shared", script)
    server.submit("own", script, Environment={"OMP_NUM_THREADS": "7"})
    server.submit("small", script, ResourceConfig={"InstanceType": "ml.m5.large"})
    cpus = len(os.sched_getaffinity(0))
    share = max(1, cpus // 2)
    for name, threads in (("shared", min(4, share)), ("own", 7), ("small", min(2, share))):
        job = server.wait(name)
        assert f"threads {threads}" in server.log(name)
        messages = {t["Status"]: t["StatusMessage"] for t in job["SecondaryStatusTransitions"]}
        assert f"OMP_NUM_THREADS={threads}" in messages["Training"]
    assert (
        f"{cpus} CPUs are shared by 2 slots"
        in server.describe("shared")["SecondaryStatusTransitions"][2]["StatusMessage"]
    )


def test_two_hosts_have_two_logs_and_one_model(server):
    server.submit("two", HOST, ResourceConfig={"InstanceCount": 2})
    job = server.wait("two")
    assert job["TrainingJobStatus"] == "Completed", (job, server.log("two"))
    for host in ("algo-1", "algo-2"):
        assert f'I am {host} of ["algo-1","algo-2"]' in server.log("two", host)
    model = server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert model == {"algo-1": b"algo-1", "algo-2": b"algo-2"}


def test_a_host_that_fails_ends_the_others(server):
    script = """
    import os, sys, time
    if os.environ["SM_CURRENT_HOST"] == "algo-2":
        sys.exit(5)
    while True:
        time.sleep(0.02)
    """
    server.submit("half", script, ResourceConfig={"InstanceCount": 2})
    job = server.wait("half")
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].endswith(", exit code: 5")


def test_jobs_beyond_the_slots_wait_in_order(make_server, tmp_path):
    server = make_server(slots=1).start()
    go = tmp_path / "go"
    server.submit("first", WAITS.format(go=str(go)))
    server.wait_for_line("first", "started")
    for name in ("second", "third"):
        server.submit(name)
        job = server.wait_for_secondary(name, "Pending")
        assert "slot" in job["SecondaryStatusTransitions"][-1]["StatusMessage"]
    client = server.boto("sagemaker")
    client.stop_training_job(TrainingJobName="second")
    assert statuses(server.wait("second")) == ["Starting", "Pending", "Stopping", "Stopped"]
    go.touch()
    for name in ("first", "third"):
        assert server.wait(name)["TrainingJobStatus"] == "Completed"
    assert statuses(server.describe("third"))[:3] == ["Starting", "Pending", "Starting"]
    listed = client.list_training_jobs(SortBy="Name", MaxResults=2)
    names = [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]]
    assert names == ["first", "second"]
    listed = client.list_training_jobs(StatusEquals="Stopped")
    assert [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]] == ["second"]


def test_tags_and_updates(server, tmp_path):
    go = tmp_path / "go"
    client = server.boto("sagemaker")
    profiler = {
        "S3OutputPath": f"s3://{DEFAULT_BUCKET}/profile",
        "ProfilingParameters": {"LocalPath": "/opt/ml/output/profiler"},
    }
    server.submit(
        "tagged",
        WAITS.format(go=str(go)),
        Tags=[{"Key": "a", "Value": "1"}],
        ProfilerConfig=profiler,
    )
    arn = server.describe("tagged")["TrainingJobArn"]
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}])
    client.delete_tags(ResourceArn=arn, TagKeys=["a"])
    assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    server.wait_for_line("tagged", "started")
    interval = {"ProfilingIntervalInMilliseconds": 200}
    client.update_training_job(TrainingJobName="tagged", ProfilerConfig=interval)
    config = server.root.host_dir("tagged", "algo-1") / "input/config/profilerconfig.json"
    wait_until(lambda: "200" in config.read_text(), "the profiler's configuration is new")
    shown = {**profiler, **interval, "DisableProfiler": False}
    assert server.describe("tagged")["ProfilerConfig"] == shown
    assert "/opt/ml" not in config.read_text(), "a process sees its own folder instead"
    for part, refusal in (
        ({"ProfilingIntervalInMilliseconds": 3}, "must be one of"),
        ({"S3OutputPath": "s3://no-such-bucket/x"}, "no-such-bucket does not exist"),
        ({"ProfilingParameters": {"LocalPath": "/opt/ml/../x"}}, "without '..'"),
    ):
        with pytest.raises(ClientError, match=refusal):
            client.update_training_job(TrainingJobName="tagged", ProfilerConfig=part)
    go.touch()
    assert server.wait("tagged")["TrainingJobStatus"] == "Completed", "a refusal ends no job"
    with pytest.raises(ClientError, match="in status Completed"):
        client.update_training_job(TrainingJobName="tagged", ProfilerConfig=interval)
