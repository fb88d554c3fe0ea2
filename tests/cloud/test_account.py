"""An account of AWS as moto plays it: identity, roles, buckets, images, quotas, logs."""

from __future__ import annotations

import json
import time

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber
from moto import mock_aws

from stoker.cli.doctor.cloud_checks import CloudExamination, examine_cloud
from stoker.cloud.account import Account
from stoker.cloud.image import is_remote, make_target
from stoker.cloud.jobs import CloudJobs, parse_job
from stoker.cloud.log_line import LOG_GROUP
from stoker.cloud.queue import read_queued_job, submit
from stoker.cloud.refusals import ConnectionLost
from stoker.cloud.settings import CloudSettings
from stoker.machine.aws import registry_address
from stoker.machine.failures import UsageRefused

KIND = "ml.g5.xlarge"
# moto's client of IAM is asked in us-east-1, and warns about what botocore will change.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def account(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with mock_aws():
        yield Account(region="eu-west-1")


def make_role(account, name, service="sagemaker.amazonaws.com"):
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": ["ec2.amazonaws.com", service]},
        "Action": "sts:AssumeRole",
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    answer = account.call(
        "iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=document, Path="/jobs/"
    )
    return answer["Role"]["Arn"]


def quotas(value):
    return [
        {"QuotaName": f"{KIND} for {what}", "QuotaCode": f"L-{number}", "Value": value}
        for number, what in enumerate(
            ("training job usage", "spot training job usage", "training warm pool usage")
        )
    ]


class Simulated:
    """The HTTP answer of IAM's simulation, which moto does not have."""

    status_code = 200


def simulate(account, denied):
    """IAM's simulation: what is in `denied` is refused; the request is checked by the model."""

    def answer(params, **_rest):
        names = [text for key, text in params["body"].items() if key.startswith("ActionNames")]
        results = [
            {
                "EvalActionName": name,
                "EvalDecision": "implicitDeny" if name in denied else "allowed",
            }
            for name in names
        ]
        return Simulated(), {"EvaluationResults": results, "IsTruncated": False}

    events = account.client("iam").meta.events
    events.register("before-call.iam.SimulatePrincipalPolicy", answer)


def examine(account, quota, **options):
    simulate(account, options.pop("denied", ()))
    stub = Stubber(account.client("service-quotas"))
    stub.add_response("list_service_quotas", {"Quotas": quota}, {"ServiceCode": "sagemaker"})
    with stub:
        return examine_cloud(
            CloudExamination(
                account=account,
                settings=CloudSettings(**options.pop("settings", {})),
                instance_type=KIND,
                image=options.pop("image", "stoker:cpu"),
            )
        )


def test_a_region_that_is_misspelt_has_its_near_miss(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    account = Account(region="eu-wset-1")

    def unreachable(**_rest):
        raise EndpointConnectionError(endpoint_url="https://sts.eu-wset-1.amazonaws.com")

    account.client("sts").meta.events.register("before-send", unreachable)
    with pytest.raises(ConnectionLost, match="boto3 knows; did you mean eu-west-1"):
        account.call("sts", "GetCallerIdentity")


@pytest.mark.parametrize(
    ("region", "domain"), [("eu-west-1", "amazonaws.com"), ("cn-north-1", "amazonaws.com.cn")]
)
def test_the_registry_is_in_the_domain_of_its_partition(region, domain):
    registry = registry_address("111122223333", region)
    assert registry == f"111122223333.dkr.ecr.{region}.{domain}"
    assert make_target("a:1", None, registry=registry).is_ecr


def test_the_only_role_that_trusts_sagemaker_is_taken(account):
    with pytest.raises(UsageRefused, match="0 roles of this account trust SageMaker"):
        account.find_role(None)
    make_role(account, "Other", "lambda.amazonaws.com")
    arn = make_role(account, "Train")
    assert account.find_role(None) == account.find_role("Train") == arn
    make_role(account, "Second")
    with pytest.raises(UsageRefused, match=r"2 roles .*: Second, Train"):
        account.find_role(None)


def test_the_usual_bucket_is_made_and_no_other_one(account):
    account.require_bucket(account.default_bucket)
    account.require_bucket(account.default_bucket)
    where = account.call("s3", "GetBucketLocation", Bucket=account.default_bucket)
    assert where["LocationConstraint"] == "eu-west-1"
    with pytest.raises(UsageRefused, match="no such bucket: nobodys"):
        account.require_bucket("nobodys")
    Account(region="us-west-2").call(
        "s3",
        "CreateBucket",
        Bucket="far-away",
        CreateBucketConfiguration={"LocationConstraint": "us-west-2"},
    )
    with pytest.raises(UsageRefused, match="another region than eu-west-1: far-away"):
        account.require_bucket("far-away")


def test_doctor_names_every_problem_with_its_command(account):
    make_role(account, "Distrusted", "lambda.amazonaws.com")
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/stoker:1"
    found = examine(account, quotas(0.0), settings={"role": "Distrusted"}, image=image)
    problems = {each.check: each.fix for each in found if each.level == "problem"}
    assert set(problems) == {"role", "image", "quota"}
    assert "aws iam update-assume-role-policy --role-name Distrusted" in problems["role"]
    assert "aws ecr create-repository --repository-name stoker" in problems["image"]
    assert "--quota-code L-0 --desired-value 1 --region eu-west-1" in problems["quota"]


def test_doctor_prints_the_policy_for_what_the_role_may_not_do(account):
    make_role(account, "Train")
    denied = {"ecr:BatchGetImage", "s3:PutObject"}
    found = examine(account, quotas(1.0), denied=denied)
    (problem,) = [each for each in found if each.level == "problem"]
    assert problem.text == "Train may not s3:PutObject, ecr:BatchGetImage"
    command, _, document = problem.fix.partition(" --policy-document ")
    assert "put-role-policy --role-name Train" in command
    statements = json.loads(document.strip("'"))["Statement"]
    assert [statement["Resource"] for statement in statements] == [
        f"arn:aws:s3:::{account.default_bucket}/*",
        f"arn:aws:ecr:eu-west-1:{account.number}:repository/stoker",
    ]
    network = {"settings": {"subnets": ("subnet-1",)}, "denied": {"ec2:DescribeVpcs"}}
    assert "ec2:DescribeVpcs" in str(examine(Account(region="eu-west-1"), quotas(1.0), **network))


def test_doctor_finds_nothing_in_an_account_that_is_ready(account):
    make_role(account, "Train")
    account.call("ecr", "CreateRepository", repositoryName="stoker")
    media = "application/vnd.docker.distribution.manifest.v2+json"
    config = {"digest": "sha256:" + "0" * 64, "mediaType": media, "size": 1}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": media, "config": config, "layers": []})
    account.call("ecr", "PutImage", repositoryName="stoker", imageManifest=manifest, imageTag="1")
    image = f"{account.number}.dkr.ecr.eu-west-1.amazonaws.com/stoker:1"
    found = examine(account, quotas(2.0), image=image)
    assert [each.check for each in found if each.level == "problem"] == []
    far = examine(account, [], image=image.replace("eu-west-1", "us-west-2"))
    assert {each.check for each in far if each.level == "problem"} == {"image", "quota"}


def test_a_log_is_read_once_and_continues_after_a_cut(account):
    account.call("logs", "CreateLogGroup", logGroupName=LOG_GROUP)
    jobs = CloudJobs(account)
    now = int(time.time() * 1000)
    place = {"logGroupName": LOG_GROUP, "logStreamName": "job/algo-1-1"}
    account.call("logs", "CreateLogStream", **place)
    tokens: dict[str, str] = {}
    assert list(jobs.read_log("other", {})) == []
    for text in ("one", "two"):
        account.call(
            "logs", "PutLogEvents", logEvents=[{"timestamp": now, "message": text}], **place
        )
        assert [(line.host, line.text) for line in jobs.read_log("job", tokens)] == [
            ("algo-1", text)
        ]
    lost = []
    jobs.on_lost = lost.append
    call, cuts = account.call, iter((True, True, False))

    def cut(*arguments, **options):
        if next(cuts, False):
            raise ConnectionLost("cut", fix="wait")
        return call(*arguments, **options)

    account.call = cut
    assert list(jobs.read_log("job", tokens)) == []
    assert len(lost) == 2


def test_a_queued_job_names_its_training_job(account):
    stub = Stubber(account.client("batch"))
    arn = "arn:aws:sagemaker:eu-west-1:111122223333:training-job/job-1"
    request = {"jobName": "job-1", "jobQueue": "q", "serviceJobType": "SAGEMAKER_TRAINING"}
    request |= {"serviceRequestPayload": "{}", "clientToken": "job-1"}
    stub.add_response("submit_service_job", {"jobName": "job-1", "jobId": "7"}, request)
    answer = {"jobId": "7", "jobName": "job-1", "jobQueue": "q", "status": "RUNNABLE"}
    answer |= {"serviceJobType": "SAGEMAKER_TRAINING", "startedAt": 0}
    stub.add_response("describe_service_job", answer, {"jobId": "7"})
    attempt = {"serviceResourceId": {"name": "TrainingJobArn", "value": arn}}
    stub.add_response("describe_service_job", {**answer, "latestAttempt": attempt}, {"jobId": "7"})
    with stub:
        assert submit(account, request) == ("7", False)
        assert read_queued_job(account, "7").training_job is None
        assert read_queued_job(account, "7").training_job == "job-1"


def test_names_say_where_a_job_or_an_image_is():
    arn = "arn:aws:sagemaker:eu-west-1:111122223333:training-job/job-1"
    assert parse_job(arn) == ("job-1", "eu-west-1")
    assert parse_job("job-1") == ("job-1", None)
    assert is_remote("localhost:5000/a")
    assert is_remote("1.dkr.ecr.r.amazonaws.com/a:b")
    assert not is_remote("stoker:cpu")
    assert not is_remote("team/stoker")
    assert make_target("team/stoker:cpu", None, registry="r.io").name == "r.io/stoker"
    assert make_target("a", "localhost:5000/x/y", registry="r.io").name == "localhost:5000/x/y"
