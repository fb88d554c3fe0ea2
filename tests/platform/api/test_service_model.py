"""Requests held against botocore's service model, mistakes in AWS's wording."""

from __future__ import annotations

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from stoker.platform.api.service_model import known_operation, require_valid
from stoker.platform.model.faults import ApiFault
from tests.platform.training_requests import make_channel, make_request


def mistakes(**changes) -> str:
    with pytest.raises(ApiFault) as caught:
        require_valid("sagemaker", "CreateTrainingJob", make_request(**changes))
    assert caught.value.status == 400
    return f"{caught.value.code}: {caught.value.message}"


def test_a_good_request_passes_and_is_what_botocore_itself_accepts():
    request = make_request(
        HyperParameters={"a" * 256: "b" * 2500, "empty": ""},
        Environment={"KEY_1": "two\nlines = fine"},
        InputDataConfig=[make_channel("train.x-1")],
        Tags=[{"Key": "größe:x/y", "Value": "ein Wert @ home"}],
    )
    assert require_valid("sagemaker", "CreateTrainingJob", request) == request
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    shape = model.operation_model("CreateTrainingJob").input_shape
    assert not ParamValidator().validate(request, shape).has_errors()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"TrainingJobName": "a_b"},
            "ValidationException: 1 validation error detected: Value 'a_b' at 'trainingJobName'"
            " failed to satisfy constraint: Member must satisfy regular expression pattern: "
            "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}",
        ),
        (
            {"TrainingJobName": "a" * 64},
            "Member must have length less than or equal to 63",
        ),
        (
            {"TrainingJobName": ""},
            "Member must have length greater than or equal to 1",
        ),
        (
            {"OutputDataConfig": None},
            "Value null at 'outputDataConfig' failed to satisfy constraint: Member must not be"
            " null",
        ),
        (
            {"OutputDataConfig": {}},
            "Value null at 'outputDataConfig.s3OutputPath'",
        ),
        (
            {"OutputDataConfig": {"S3OutputPath": "/local"}},
            "at 'outputDataConfig.s3OutputPath' failed to satisfy constraint: Member must satisfy"
            " regular expression pattern: (https|s3)://([^/]+)/?(.*)",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 0}},
            "Value '0' at 'stoppingCondition.maxRuntimeInSeconds' failed to satisfy constraint:"
            " Member must have value greater than or equal to 1",
        ),
        (
            {"AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "Fast"}},
            "Value 'Fast' at 'algorithmSpecification.trainingInputMode' failed to satisfy"
            " constraint: Member must satisfy enum value set: [",
        ),
        (
            {"InputDataConfig": [make_channel(), make_channel("no spaces")]},
            "Value 'no spaces' at 'inputDataConfig.2.member.channelName'",
        ),
        (
            {"InputDataConfig": [make_channel(str(n)) for n in range(21)]},
            "at 'inputDataConfig' failed to satisfy constraint: Member must have length less than"
            " or equal to 20",
        ),
        (
            {"HyperParameters": {"lr": "x" * 2501}},
            "Map value must satisfy constraint: [Member must have length less than or equal to 2",
        ),
        (
            {"Environment": {"1KEY": "x"}},
            "Map keys must satisfy constraint: [Member must satisfy regular expression pattern:",
        ),
        (
            {"ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": "2"}},
            "SerializationException: STRING_VALUE can not be converted to an Integer at"
            " 'resourceConfig.instanceCount'",
        ),
        ({"EnableManagedSpotTraining": "yes"}, "can not be converted to a Boolean"),
        ({"HyperParameters": {"lr": 0.1}}, "DECIMAL_VALUE can not be converted to a String"),
        ({"InputDataConfig": {}}, "can not be converted to a list"),
    ],
)
def test_one_mistake_is_told_as_aws_tells_it(changes, text):
    assert text in mistakes(**changes)


def test_all_mistakes_are_told_at_once():
    told = mistakes(TrainingJobName="_", RoleArn="x" * 30, OutputDataConfig=None)
    assert "3 validation errors detected: " in told
    for place in ("'trainingJobName'", "'roleArn'", "'outputDataConfig'"):
        assert place in told


def test_unknown_members_and_nulls_are_left_out():
    request = make_request() | {"Unheard": 1, "HyperParameters": None}
    assert require_valid("sagemaker", "CreateTrainingJob", request) == make_request()


def test_a_message_of_several_lines_is_any_text():
    """SDK v2 ends a run whose job failed with the job's whole reason."""
    status = {"PrimaryStatus": "Failed", "Message": "KeyError: 'x'\n  File train.py, line 3"}
    request = {"TrialComponentName": "run", "Status": status}
    assert require_valid("sagemaker", "UpdateTrialComponent", request) == request


def test_logs_has_its_own_name_for_it():
    with pytest.raises(ApiFault) as caught:
        require_valid("logs", "GetLogEvents", {"logGroupName": "*", "logStreamName": "x"})
    assert caught.value.code == "InvalidParameterException"


@pytest.mark.parametrize("seconds", [2**63, 10**30, float("nan"), -1e15])
def test_what_no_calendar_has_is_not_a_time(seconds):
    with pytest.raises(ApiFault, match="'creationTimeAfter' is not a time"):
        require_valid("sagemaker", "ListTrainingJobs", {"CreationTimeAfter": seconds})


def test_operations_are_those_of_the_service():
    assert known_operation("sagemaker", "CreateTrainingJob")
    assert not known_operation("logs", "CreateTrainingJob")
