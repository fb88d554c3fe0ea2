"""A CreateTrainingJob request that every rule accepts, and ways to change it."""

from __future__ import annotations

import copy
from typing import Any

ROLE = "arn:aws:iam::000000000000:role/dummy"


def make_request(**changes: Any) -> dict[str, Any]:
    """A request with some fields replaced; None takes a field away."""
    request: dict[str, Any] = {
        "TrainingJobName": "job-1",
        "AlgorithmSpecification": {"TrainingImage": "stoker:cpu", "TrainingInputMode": "File"},
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }
    request.update(copy.deepcopy(changes))
    return {name: value for name, value in request.items() if value is not None}


def make_channel(name: str = "train", **changes: Any) -> dict[str, Any]:
    """An S3 channel; fields of the S3 source and of the channel may be replaced."""
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/{name}"}
    fields = {"S3DataType", "S3Uri", "S3DataDistributionType", "AttributeNames"}
    fields.add("InstanceGroupNames")
    source |= {key: value for key, value in changes.items() if key in fields}
    channel = {key: value for key, value in changes.items() if key not in fields}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **channel}
