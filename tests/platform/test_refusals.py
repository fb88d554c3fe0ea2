"""CreateTrainingJob refuses what could only fail later, in the service's codes and words."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.platform.local_server import DEFAULT_BUCKET, channel


def refused(server, code, **parts):
    with pytest.raises(ClientError) as caught:
        server.submit(parts.pop("name", "refused"), **parts)
    error = caught.value.response["Error"]
    assert error["Code"] == code, error
    return error["Message"]


def test_what_is_not_there_is_refused_and_leaves_nothing(server):
    spot = {"MaxRuntimeInSeconds": 10, "MaxWaitTimeInSeconds": 10}
    missing = f"s3://{DEFAULT_BUCKET}/nothing/here"
    said = refused(server, "ValidationException", InputDataConfig=[channel("train", missing)])
    assert f'No S3 objects found under S3 URL "{missing}"' in said
    said = refused(
        server,
        "ValidationException",
        OutputDataConfig={"S3OutputPath": "s3://no-such-bucket/out"},
        CheckpointConfig={"S3Uri": "s3://nor-this-one/checkpoints"},
        InputDataConfig=[channel("train", "s3://and-not-this/x")],
        EnableManagedSpotTraining=True,
        StoppingCondition=spot,
        Environment={"STOKER_SPOT": "sometimes"},
    )
    for name in ("no-such-bucket", "nor-this-one", "and-not-this", "'sometimes'"):
        assert name in said  # every mistake at once
    assert server.boto("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
    assert server.leftovers() == []


def test_a_name_is_used_once(server):
    server.submit("same")
    assert "already exists" in refused(server, "ResourceInUse", name="same")
    server.wait("same")
    assert "already exists" in refused(server, "ResourceInUse", name="same")


def test_an_unknown_job_is_a_validation_error_and_unknown_tags_are_not_found(server):
    client = server.boto("sagemaker")
    for call in (client.describe_training_job, client.stop_training_job):
        with pytest.raises(ClientError, match="Requested resource not found") as caught:
            call(TrainingJobName="nobody")
        assert caught.value.response["Error"]["Code"] == "ValidationException"
    arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/nobody"
    with pytest.raises(ClientError) as caught:
        client.list_tags(ResourceArn=arn)
    assert caught.value.response["Error"]["Code"] == "ResourceNotFound"


@pytest.mark.docker
def test_an_image_that_is_not_there_is_refused(make_server):
    server = make_server("docker").start()
    server.image = "nobody/has-this:1"
    assert "nobody/has-this:1" in refused(server, "ValidationException")
    assert server.leftovers() == []
