"""The request for an account: what changes, what stays, and what AWS's own model says of it."""

from __future__ import annotations

import json

import botocore.session
import pytest
from botocore.stub import Stubber
from botocore.validate import ParamValidator

from stoker.cloud.request import (
    Places,
    make_queue_request,
    make_training_request,
    make_tuning_request,
    read_machines,
)
from stoker.cloud.sdk_config import read_sdk_config
from stoker.cloud.settings import CloudSettings, InstanceGroup, merge_sdk_config, require_sense
from stoker.machine.failures import UsageRefused

BUCKET = "sagemaker-us-east-1-000000000000"
ROLE = "arn:aws:iam::111122223333:role/Train"
KEY = "arn:aws:kms:eu-west-1:111122223333:key/1"
SESSION = botocore.session.Session()
LOCAL = {
    "TrainingJobName": "job-1",
    "RoleArn": "arn:aws:iam::000000000000:role/stoker-local",
    "AlgorithmSpecification": {"TrainingImage": "stoker:cpu", "TrainingInputMode": "File"},
    "HyperParameters": {"lr": "0.1"},
    "InputDataConfig": [
        {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
        }
        for name, uri in {
            "train": "file:///data",
            "test": "s3://theirs/test",
            "code": f"s3://{BUCKET}/stoker/code/1/",
        }.items()
    ],
    "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}"},
    "TensorBoardOutputConfig": {"S3OutputPath": f"s3://{BUCKET}"},
    "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "Environment": {"A": "1"},
    "Tags": [{"Key": "team", "Value": "ours"}],
}
PLACES = Places(
    role_arn=ROLE, base="s3://mine/prefix", image="i@sha256:1", channels={"train": "s3://mine/c/"}
)
EVERYTHING = CloudSettings(
    subnets=("subnet-1",),
    security_groups=("sg-1",),
    output_kms_key=KEY,
    volume_kms_key=KEY,
    is_isolated=True,
    is_traffic_encrypted=True,
    is_spot=True,
    max_wait_seconds=7200,
    max_pending_seconds=7200,
    training_plan="arn:aws:sagemaker:eu-west-1:111122223333:training-plan/reserved",
    is_debugged=True,
    groups=(InstanceGroup(name="a", instance_type="ml.g5.xlarge", count=2),),
    queue="arn:aws:batch:eu-west-1:111122223333:job-queue/q",
    priority=3,
    share="team",
    tags={"team": "theirs", "cost": "1"},
    environ={"A": "0", "B": "2"},
)


def make(settings: CloudSettings = CloudSettings()) -> dict:  # noqa: B008 - frozen
    return make_training_request(LOCAL, settings, PLACES, local_bucket=BUCKET)


def require_valid(service: str, operation: str, request: dict) -> None:
    shape = SESSION.get_service_model(service).operation_model(operation).input_shape
    assert not ParamValidator().validate(request, shape).has_errors()


def test_only_what_belongs_to_the_account_changes():
    request = make()
    assert request["RoleArn"] == ROLE
    assert request["AlgorithmSpecification"]["TrainingImage"] == "i@sha256:1"
    uris = [c["DataSource"]["S3DataSource"]["S3Uri"] for c in request["InputDataConfig"]]
    assert uris == ["s3://mine/c/", "s3://theirs/test", "s3://mine/prefix/stoker/code/1/"]
    assert request["OutputDataConfig"] == {"S3OutputPath": "s3://mine/prefix"}
    same = ("TrainingJobName", "HyperParameters", "ResourceConfig", "StoppingCondition", "Tags")
    assert all(request[name] == LOCAL[name] for name in same)


@pytest.mark.parametrize("settings", [CloudSettings(), EVERYTHING], ids=["plain", "everything"])
def test_every_request_fits_the_service_model(settings):
    request = make(settings)
    require_valid("sagemaker", "CreateTrainingJob", request)
    queued = make_queue_request(request, EVERYTHING)
    require_valid("batch", "SubmitServiceJob", queued)
    assert json.loads(queued["serviceRequestPayload"]) == request
    client = SESSION.create_client(
        "sagemaker", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    with Stubber(client) as stub:
        arn = "arn:aws:sagemaker:eu-west-1:111122223333:training-job/job-1"
        stub.add_response("create_training_job", {"TrainingJobArn": arn}, request)
        assert client.create_training_job(**request)["TrainingJobArn"] == arn


def test_settings_of_the_account_are_in_the_request():
    request = make(EVERYTHING)
    assert request["VpcConfig"] == {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}
    assert request["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 3600,
        "MaxWaitTimeInSeconds": 7200,
        "MaxPendingTimeInSeconds": 7200,
    }
    assert request["CheckpointConfig"]["S3Uri"] == "s3://mine/prefix/job-1/checkpoints"
    assert "InstanceType" not in request["ResourceConfig"]
    assert request["Environment"] == {"A": "1", "B": "2"}  # what the user says now wins
    assert {"Key": "team", "Value": "ours"} in request["Tags"]
    assert read_machines(request) == {"ml.g5.xlarge": 2}


def test_types_in_order_of_preference_replace_the_instance_type():
    request = make(CloudSettings(preferred_types=("ml.p5.48xlarge", "ml.p4d.24xlarge")))
    require_valid("sagemaker", "CreateTrainingJob", request)
    kinds = [each["InstanceType"] for each in request["ResourceConfig"]["InstancePreferences"]]
    assert kinds == ["ml.p5.48xlarge", "ml.p4d.24xlarge"]
    assert read_machines(request) == {"ml.p5.48xlarge": 2}


def test_a_search_has_the_same_definition():
    left_out = ("TrainingJobName", "HyperParameters", "Tags")
    definition = {key: value for key, value in LOCAL.items() if key not in left_out}
    definition.pop("TensorBoardOutputConfig")
    local = {
        "HyperParameterTuningJobName": "search",
        "HyperParameterTuningJobConfig": {
            "Strategy": "Random",
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1},
        },
        "TrainingJobDefinition": {**definition, "StaticHyperParameters": {"lr": "0.1"}},
    }
    request = make_tuning_request(local, EVERYTHING, PLACES, local_bucket=BUCKET)
    require_valid("sagemaker", "CreateHyperParameterTuningJob", request)
    assert request["TrainingJobDefinition"]["RoleArn"] == ROLE
    assert request["HyperParameterTuningJobConfig"] == local["HyperParameterTuningJobConfig"]


def test_what_the_user_says_wins_over_the_sdks_config():
    config = {
        "RoleArn": "theirs",
        "VpcConfig": {"Subnets": ["s"], "SecurityGroupIds": ["g"]},
        "OutputDataConfig": {"KmsKeyId": "k"},
        "Tags": [{"Key": "a", "Value": "1"}],
        "DefaultS3Bucket": "b",
    }
    merged = merge_sdk_config(CloudSettings(role="mine"), config)
    assert (merged.role, merged.output, merged.output_kms_key) == ("mine", "s3://b", "k")
    assert merged.subnets == ("s",)
    assert merged.tags == {"a": "1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "a table is expected above SageMaker"),
        ("SageMaker: {TrainingJob: [1]}", "expected as SageMaker.TrainingJob"),
        ("SageMaker: {TrainingJob: {VpcConfig: a}}", "VpcConfig is 'a', but a table"),
        ("SageMaker: {TrainingJob: {VpcConfig: {Subnets: a}}}", "Subnets is 'a', but a list"),
        ("SageMaker: {TrainingJob: {RoleArn: 5}}", "RoleArn is 5, but text"),
        ("SageMaker: {TrainingJob: {Tags: [{K: a}]}}", r"Tags\[0\] has no Key"),
        ("SageMaker: {TrainingJob: {Environment: {A: 1}}}", "Environment.A is 1"),
        ("SageMaker: {TrainingJob: {EnableNetworkIsolation: 'no'}}", "true or false"),
        ("!!python/object/apply:os.getcwd []", "is not YAML"),
        ("a: 2020-13-45", "is not YAML"),
        ("[" * 3000, "is not YAML"),
    ],
)
def test_a_config_file_of_another_shape_is_refused_by_name(tmp_path, text, said):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UsageRefused, match=said):
        read_sdk_config({"SAGEMAKER_USER_CONFIG_OVERRIDE": str(file)})


def test_an_empty_part_of_a_config_file_is_as_good_as_none(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "SageMaker: {TrainingJob: {VpcConfig: {Subnets: , SecurityGroupIds: }, Tags: }}"
    )
    config = read_sdk_config({"SAGEMAKER_USER_CONFIG_OVERRIDE": str(file)})
    assert merge_sdk_config(CloudSettings(), config) == CloudSettings()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (CloudSettings(subnets=("s",)), "a VPC needs both"),
        (CloudSettings(max_wait_seconds=3), "--use-spot"),
        (CloudSettings(preferred_types=("a",), is_spot=True), "on-demand ones only"),
        (CloudSettings(output="/tmp"), "--output /tmp is not s3://BUCKET/PREFIX"),
        (CloudSettings(output="s3://b/p"), "--output s3://b/p is not s3://BUCKET/PREFIX"),
        (CloudSettings(priority=1), "of a --queue"),
        (CloudSettings(priority=10_000, queue="q"), "--priority 10000 is not from 0 to 9999"),
        (CloudSettings(queue="a b"), "--queue a b is neither"),
        (CloudSettings(role="arn:bad"), "--role arn:bad is neither"),
        (CloudSettings(region="US-EAST-1"), "region US-EAST-1 is not a valid name"),
    ],
)
def test_settings_that_are_not_valid_are_refused_by_name(settings, said):
    with pytest.raises(UsageRefused, match=said):
        require_sense(settings)


def test_all_mistakes_of_the_settings_are_named_at_once():
    with pytest.raises(UsageRefused, match=r"a VPC needs both.*; --role a b is neither"):
        require_sense(CloudSettings(subnets=("s",), role="a b"))
