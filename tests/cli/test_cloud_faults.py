"""`--on sagemaker` while AWS refuses or is cut off: what the user reads, and no job twice."""

from __future__ import annotations

import json

import boto3
import pytest

from .fault_proxy import CUT, LOST, Answer, Fault, fault_proxy, json_error, query_error, s3_error

pytestmark = pytest.mark.functional
CLOUD = ("train", "src/train.py", "--on", "sagemaker")
DATA = (*CLOUD, "--channel", "train=data")
BUCKET = "sagemaker-us-east-1-000000000000"
ROLE = "arn:aws:iam::111122223333:role/Train"
DENIED = (
    "User: arn:aws:iam::111122223333:user/ann is not authorized to perform: iam:PassRole on "
    f"resource: {ROLE}"
)
QUOTA = (
    "The account-level service limit 'ml.g5.xlarge for training job usage' is 0 Instances, with "
    "current utilization of 0 Instances and a request delta of 1 Instances."
)
ENUM = (
    "1 validation error detected: Value 'ml.g5.xlrge' at 'resourceConfig.instanceType' failed to "
    "satisfy constraint: Member must satisfy enum value set: [ml.m4.xlarge, ml.m4.2xlarge]"
)
CLOCK = "Signature expired: 20261118T200000Z is now earlier than 20261118T201000Z"


def run(cloud, endpoint, *arguments, **environ):
    return cloud.run(*arguments, **{**cloud.environ, "AWS_ENDPOINT_URL": endpoint, **environ})


def run_with(cloud, faults, *arguments):
    with fault_proxy(cloud.environ["AWS_ENDPOINT_URL"], *faults) as endpoint:
        return run(cloud, endpoint, *arguments)


def count_jobs(cloud, name):
    done = run(
        cloud, cloud.environ["AWS_ENDPOINT_URL"], "status", "--on", "sagemaker", "--json", "--all"
    )
    return sum(job["TrainingJobName"].startswith(name) for job in json.loads(done.stdout))


@pytest.mark.parametrize(
    ("wanted", "answer", "options", "code", "texts"),
    [
        ("GetCallerIdentity", query_error("ExpiredToken", "is expired"), (), 2, ["sso login"]),
        ("GetCallerIdentity", query_error("SignatureDoesNotMatch", CLOCK), (), 3, ["timedatectl"]),
        (
            f"HEAD /{BUCKET} ",
            Answer(301, "", {"x-amz-bucket-region": "eu-west-1"}),
            (),
            2,
            ["another region than us-east-1", "--output"],
        ),
        (
            f"HEAD /{BUCKET} ",
            Answer(403, ""),
            (),
            3,
            ['"Action": "s3:ListBucket"'],
        ),
        (
            "CreateTrainingJob",
            json_error("ValidationException", f"Could not assume role {ROLE}."),
            (),
            2,
            ["sts:AssumeRole"],
        ),
        (
            "CreateTrainingJob",
            json_error("AccessDeniedException", DENIED),
            (),
            3,
            ["user/ann may not iam:PassRole", "iam:PassedToService"],
        ),
        (
            "CreateTrainingJob",
            json_error("ResourceLimitExceeded", QUOTA),
            ("--instance-type", "ml.g5.xlarge"),
            3,
            ["'ml.g5.xlarge for training job usage' in us-east-1 is 0", "--desired-value 1"],
        ),
        (
            "CreateTrainingJob",
            json_error("ValidationException", ENUM),
            ("--instance-type", "ml.g5.xlrge"),
            2,
            ["does not accept the instance type", "doctor --on sagemaker"],
        ),
    ],
    ids=["expired", "clock", "region", "bucket", "trust", "pass-role", "quota", "type"],
)
def test_what_aws_refuses_ends_with_its_fix_and_without_a_job(
    cloud, wanted, answer, options, code, texts
):
    # Code that is sent already is not asked for with the bucket: this one is new.
    new = ("--env", "A=1", "--source-dir", ".")
    (cloud.folder / "new.txt").write_text(wanted + str(texts))
    done = run_with(cloud, [Fault(wanted, answer)], *CLOUD, *new, "--name", "refused", *options)
    assert done.returncode == code, done.stdout + done.stderr
    for text in texts:
        assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert count_jobs(cloud, "refused") == 0
    if "ml.g5.xlrge" in options:
        assert "did you mean ml.g5.xlarge" in done.stdout


def test_patience_and_cuts_neither_end_the_watch_nor_repeat_a_line(cloud):
    faults = [
        Fault("GetLogEvents", CUT, times=3),
        Fault("DescribeTrainingJob", json_error("ThrottlingException", "Rate exceeded"), times=2),
        Fault("PUT", CUT, times=2),
    ]
    (cloud.folder / "data/cut.txt").write_text("new content of a channel")
    done = run_with(cloud, faults, *DATA, "--name", "cut")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [fault.seen for fault in faults] == [3, 2, 2]
    assert done.stdout.count("coal") == 1


def test_an_upload_that_was_refused_continues_with_the_same_command(cloud):
    for name in ("a", "b", "c"):
        (cloud.folder / f"data/{name}.txt").write_text(f"{name} of an upload that is refused")
    (cloud.folder / "data/b.txt").write_text("this one is refused")
    refused = Fault("/b.txt", s3_error("AccessDenied", "Access Denied", 403), times=1)
    first = run_with(cloud, [refused], *DATA, "--name", "upload")
    assert first.returncode == 3
    assert '"Action": "s3:PutObject"' in first.stderr
    second = run_with(cloud, [], *DATA, "--name", "upload", "--detach")
    assert second.returncode == 0, second.stderr
    assert "channel train: 1 files sent" in second.stdout


@pytest.mark.parametrize(
    ("command", "operation", "name"),
    [
        (DATA, "CreateTrainingJob", "answer-lost"),
        (
            ("tune", *DATA[1:], "--range", "lr=0.1..0.9", "--minimize", "loss", "--trials", "1"),
            "CreateHyperParameterTuningJob",
            "search-lost",
        ),
    ],
    ids=["train", "tune"],
)
def test_a_lost_answer_is_one_job(cloud, command, operation, name):
    done = run_with(cloud, [Fault(f".{operation} ", LOST, times=1)], *command, "--name", name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name} was submitted before and runs" in done.stdout
    assert count_jobs(cloud, name) == 1


def test_a_search_reads_the_account_from_stoker_toml(cloud):
    file = cloud.folder / "stoker.toml"
    file.write_text(
        f'[train]\nrole = "{ROLE}"\noutput = "s3://team-bucket/x"\nregion = "eu-west-1"\n'
        'use_spot = true\nmax_run = "1h"\nmax_wait = "6h"\nparameters = { lr = 0.5, b = 1 }\n'
    )
    try:
        done = cloud.run(
            *("tune", "src/train.py", "--on", "sagemaker", "--range", "lr=0.1..0.9"),
            *("--minimize", "loss", "--dry-run"),
        )
        assert done.returncode == 0, done.stderr
        found = cloud.run("doctor", "--on", "sagemaker", "--json")
        assert "no credentials" in found.stdout
    finally:
        file.unlink()
    definition = json.loads(done.stdout)["TrainingJobDefinition"]
    assert definition["RoleArn"] == ROLE
    assert definition["OutputDataConfig"]["S3OutputPath"] == "s3://team-bucket/x"
    assert definition["EnableManagedSpotTraining"]
    assert definition["StoppingCondition"]["MaxWaitTimeInSeconds"] == 6 * 3600
    assert "lr" not in definition["StaticHyperParameters"]  # the range wins
    assert definition["StaticHyperParameters"]["b"] == "1"
    assert "in eu-west-1 on" in done.stderr


def test_a_job_without_machines_and_interruptions_of_spot_are_explained(cloud):
    def no_machines(_request, answer):
        job = json.loads(answer.body)
        reason = "CapacityError: Unable to provision requested ML compute capacity."
        job |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed"}
        return Answer(200, json.dumps({**job, "FailureReason": reason}), answer.headers)

    failed = run_with(
        cloud, [Fault("DescribeTrainingJob", no_machines)], *CLOUD, "--name", "machines"
    )
    assert failed.returncode == 1
    assert "--prefer TYPE,TYPE" in failed.stdout

    def interrupted(_request, answer):
        job = json.loads(answer.body)
        interruption = {**job["SecondaryStatusTransitions"][0], "Status": "Interrupted"}
        job["SecondaryStatusTransitions"] += [interruption] * 2
        job |= {"EnableManagedSpotTraining": True, "TrainingTimeInSeconds": 100}
        return Answer(200, json.dumps({**job, "BillableTimeInSeconds": 30}), answer.headers)

    done = run_with(
        cloud,
        [Fault("DescribeTrainingJob", interrupted)],
        *("status", "machines", "--on", "sagemaker"),
    )
    assert "interrupted 2 times" in done.stdout
    assert "30 s billed" in done.stdout
    assert "spot saved 70%" in done.stdout


def test_a_job_that_is_deleted_meanwhile_is_named(cloud):
    gone = json_error("ValidationException", "Requested resource not found.")
    done = run_with(cloud, [Fault("DescribeTrainingJob", gone)], *CLOUD, "--name", "gone")
    assert done.returncode == 2
    assert "a job that was deleted is not kept anywhere" in done.stderr


def queue(kind, state="ENABLED"):
    """Batch's description of the queue `gpus`."""
    found = {"jobQueueName": "gpus", "jobQueueArn": "arn", "state": state, "priority": 1}
    found |= {"computeEnvironmentOrder": [], "jobQueueType": kind}
    return Answer(200, json.dumps({"jobQueues": [found]}), {"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ([], "DescribeJobQueues is not served here"),
        ([Fault("describejobqueues", Answer(200, '{"jobQueues": []}'))], "no job queue gpus"),
        ([Fault("describejobqueues", queue("ECS"))], "of the type ECS, not SAGEMAKER_TRAINING"),
        ([Fault("describejobqueues", queue("SAGEMAKER_TRAINING", "DISABLED"))], "is DISABLED"),
    ],
    ids=["local", "missing", "type", "disabled"],
)
def test_a_queue_that_takes_no_training_jobs_is_refused_before_anything_is_sent(
    cloud, faults, said
):
    sent = Fault("PUT", CUT)
    (cloud.folder / "data/queue.txt").write_text(said)
    done = run_with(cloud, [*faults, sent], *DATA, "--queue", "gpus", "--name", "unqueued")
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert sent.seen == 0


def test_a_lost_answer_of_a_queue_is_one_job_in_it(cloud):
    """Batch rejects the repetition that botocore makes, as its documentation says."""
    accepted = []

    def submit(request, _answer):
        accepted.append(json.loads(request))
        if len(accepted) == 1:
            return Answer(503, "{}", {"x-amzn-ErrorType": "ServerException"})
        said = json.dumps({"message": "The request has been submitted already"})
        return Answer(400, said, {"x-amzn-ErrorType": "ClientException"})

    def describe(_request, _answer):
        job = {"jobId": "7", "jobName": "queue-lost", "jobQueue": "gpus", "status": "RUNNABLE"}
        job |= {"serviceJobType": "SAGEMAKER_TRAINING", "startedAt": 0}
        job["serviceRequestPayload"] = accepted[0]["serviceRequestPayload"]
        return Answer(200, json.dumps(job), {"Content-Type": "application/json"})

    listed = {"jobId": "7", "jobName": "queue-lost", "serviceJobType": "SAGEMAKER_TRAINING"}
    faults = [
        Fault("describejobqueues", queue("SAGEMAKER_TRAINING")),
        Fault("submitservicejob", submit),
        Fault("listservicejobs", Answer(200, json.dumps({"jobSummaryList": [listed]}))),
        Fault("describeservicejob", describe),
    ]
    command = (*CLOUD, "--queue", "gpus", "--name", "queue-lost", "--detach")
    with fault_proxy(cloud.environ["AWS_ENDPOINT_URL"], *faults) as address:
        sent = run(cloud, address, *command)
        assert sent.returncode == 0, sent.stderr
        assert "queue-lost was submitted before and waits" in sent.stdout
        assert "RUNNABLE" in run(cloud, address, "status", "queue-lost").stdout
        # Another job under the same name is not taken for it.
        other = run(cloud, address, *command, "--param", "lr=3")
    assert other.returncode == 3
    assert "submitted already" in other.stderr


def test_a_dry_run_prints_the_request_for_the_queue(cloud):
    done = run(cloud, cloud.environ["AWS_ENDPOINT_URL"], *CLOUD, "--queue", "gpus", "--dry-run")
    request = json.loads(done.stdout)
    assert request["jobQueue"] == "gpus"
    assert "HyperParameters" in json.loads(request["serviceRequestPayload"])
    assert "submit the job to the queue gpus" in done.stderr


def test_a_queue_submits_the_same_request_and_the_verbs_follow_it(cloud):
    """The proxy plays AWS Batch: it creates the job that the payload describes."""
    names = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    keys = {name.lower(): cloud.environ[name] for name in names}
    endpoint = cloud.environ["AWS_ENDPOINT_URL"]
    client = boto3.client("sagemaker", "us-east-1", endpoint_url=endpoint, **keys)
    created = {}
    ended = []

    def submit(request, _answer):
        asked = json.loads(request)
        assert asked["jobQueue"] == "gpus"
        assert asked["schedulingPriority"] == 3
        payload = json.loads(asked["serviceRequestPayload"])
        created["arn"] = client.create_training_job(**payload)["TrainingJobArn"]
        answer = {"jobArn": "arn", "jobName": asked["jobName"], "jobId": "7"}
        return Answer(200, json.dumps(answer), {"Content-Type": "application/json"})

    def describe(_request, _answer):
        job = {"jobId": "7", "jobName": "queued", "jobQueue": "gpus", "status": "RUNNABLE"}
        job |= {"serviceJobType": "SAGEMAKER_TRAINING", "startedAt": 0}
        if describe.is_started:
            where = {"name": "TrainingJobArn", "value": created["arn"]}
            job["latestAttempt"] = {"serviceResourceId": where}
        return Answer(200, json.dumps(job), {"Content-Type": "application/json"})

    def terminate(request, _answer):
        ended.append(json.loads(request)["jobId"])
        return Answer(200, "{}", {"Content-Type": "application/json"})

    describe.is_started = False
    faults = [
        Fault("describejobqueues", queue("SAGEMAKER_TRAINING")),
        Fault("submitservicejob", submit),
        Fault("describeservicejob", describe),
        Fault("terminateservicejob", terminate),
    ]
    with fault_proxy(endpoint, *faults) as address:
        queued = ("--queue", "gpus", "--priority", "3", "--name", "queued", "--detach")
        sent = run(cloud, address, *DATA, *queued)
        assert sent.returncode == 0, sent.stderr
        assert "RUNNABLE" in run(cloud, address, "status", "queued").stdout
        waiting = run(cloud, address, "status", "queued", "--json")
        assert json.loads(waiting.stdout) == {"job": "queued", "queue": "RUNNABLE"}
        early = run(cloud, address, "runs", "import", "queued")
        assert "has no training job yet: in its queue it is RUNNABLE" in early.stderr
        describe.is_started = True
        attached = run(cloud, address, "attach", "queued")
        assert attached.returncode == 0, attached.stderr
        assert "coal" in attached.stdout
        assert "Completed" in run(cloud, address, "status", "queued").stdout
        assert run(cloud, address, "stop", "queued").returncode == 0
        search = ("--range", "lr=0.1..0.9", "--minimize", "loss")
        refused = run(cloud, address, "tune", *CLOUD[1:], *search, "--queue", "gpus")
    assert ended == ["7"]
    assert refused.returncode == 2
    assert "a search has no --queue" in refused.stderr
