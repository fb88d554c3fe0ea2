"""The request that the local platform accepted, as it is sent to an account; pure.

Only what belongs to an account changes: role, bucket, image, addresses of data, network, keys.
Script, hyperparameters, metrics and limits stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.cloud.settings import CloudSettings

_DAY_SECONDS = 24 * 3600
_ADDRESSES = (
    ("OutputDataConfig", "S3OutputPath"),
    ("TensorBoardOutputConfig", "S3OutputPath"),
    ("CheckpointConfig", "S3Uri"),
    ("DebugHookConfig", "S3OutputPath"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where things are in the account."""

    role_arn: str
    base: str
    """s3://BUCKET or s3://BUCKET/PREFIX: takes the place of the local bucket."""

    image: str
    channels: Mapping[str, str]
    """Channel name → s3:// address, for those that were folders."""


def make_training_request(
    local: Mapping[str, Any], settings: CloudSettings, places: Places, *, local_bucket: str
) -> dict[str, Any]:
    """A CreateTrainingJob request for the account.

    Args:
        local: the request as it is sent to the platform of this machine.
        settings: what the account's job needs in addition.
        places: where things are.
        local_bucket: the bucket that `local` names.
    """
    here = f"s3://{local_bucket}"
    request: dict[str, Any] = {
        **local,
        "RoleArn": places.role_arn,
        "AlgorithmSpecification": {
            **local["AlgorithmSpecification"],
            "TrainingImage": places.image,
        },
        "InputDataConfig": [
            _channel(channel, places, here) for channel in local.get("InputDataConfig", ())
        ],
        "ResourceConfig": _resources(local["ResourceConfig"], settings),
        "StoppingCondition": _stopping(local["StoppingCondition"], settings),
        **_network(settings),
    }
    for part, name in _ADDRESSES:
        if part in request:
            moved = _move(request[part][name], here, places.base)
            request[part] = {**request[part], name: moved}
    if settings.output_kms_key:
        kms = {"KmsKeyId": settings.output_kms_key}
        request["OutputDataConfig"] = {**request["OutputDataConfig"], **kms}
    if settings.is_spot:
        request["EnableManagedSpotTraining"] = True
        name = local.get("TrainingJobName", "")
        # Without a place for checkpoints each interruption would start from the beginning.
        request.setdefault("CheckpointConfig", {"S3Uri": f"{places.base}/{name}/checkpoints"})
    if settings.is_debugged:
        request["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    environ = {**settings.environ, **local.get("Environment", {})}
    if environ:
        request["Environment"] = environ
    tags = {**settings.tags, **{t["Key"]: t["Value"] for t in local.get("Tags", ())}}
    if tags:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    return request


def make_tuning_request(
    local: Mapping[str, Any], settings: CloudSettings, places: Places, *, local_bucket: str
) -> dict[str, Any]:
    """A CreateHyperParameterTuningJob request for the account; arguments as above."""
    name = local["HyperParameterTuningJobName"]
    definition = local["TrainingJobDefinition"]
    # The definition has the members of a training request, except those of one job alone.
    made = make_training_request(
        {**definition, "TrainingJobName": name}, settings, places, local_bucket=local_bucket
    )
    tags = made.pop("Tags", [])
    given = {tag["Key"]: tag for tag in [*tags, *local.get("Tags", ())]}
    for left_out in ("TrainingJobName", "RemoteDebugConfig"):
        made.pop(left_out, None)
    return {
        **local,
        "TrainingJobDefinition": made,
        **({"Tags": list(given.values())} if given else {}),
    }


def make_queue_request(request: Mapping[str, Any], settings: CloudSettings) -> dict[str, Any]:
    """A SubmitServiceJob request of AWS Batch, which creates the same training job later."""
    name = request["TrainingJobName"]
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", ())}
    made: dict[str, Any] = {
        "jobName": name,
        "jobQueue": settings.queue,
        "serviceJobType": "SAGEMAKER_TRAINING",
        "serviceRequestPayload": json.dumps(request),
        # The same token: a repeated call returns the first job instead of a second one.
        "clientToken": name,
    }
    optional = {
        "schedulingPriority": settings.priority,
        "shareIdentifier": settings.share,
        "tags": tags or None,
    }
    return {**made, **{key: value for key, value in optional.items() if value is not None}}


def read_machines(request: Mapping[str, Any]) -> dict[str, int]:
    """Instance type → how many, of a request or a description; of several choices, the first."""
    resources = request["ResourceConfig"]
    groups = resources.get("InstanceGroups") or resources.get("InstancePreferences")
    if resources.get("SelectedInstanceType"):
        return {resources["SelectedInstanceType"]: resources.get("SelectedInstanceCount", 1)}
    counts: dict[str, int] = {}
    for group in (groups[:1] if resources.get("InstancePreferences") else groups) or [resources]:
        kind = group["InstanceType"]
        counts[kind] = counts.get(kind, 0) + int(group.get("InstanceCount", 1))
    return counts


def _move(uri: str, here: str, base: str) -> str:
    return base + uri.removeprefix(here) if uri == here or uri.startswith(here + "/") else uri


def _channel(channel: Mapping[str, Any], places: Places, here: str) -> dict[str, Any]:
    source = channel["DataSource"]["S3DataSource"]
    name = channel["ChannelName"]
    uri = places.channels.get(name) or _move(source["S3Uri"], here, places.base)
    return {**channel, "DataSource": {"S3DataSource": {**source, "S3Uri": uri}}}


def _resources(local: Mapping[str, Any], settings: CloudSettings) -> dict[str, Any]:
    resources = dict(local)
    if settings.groups:
        # The service takes either these or groups.
        for name in ("InstanceType", "InstanceCount"):
            resources.pop(name, None)
        resources["InstanceGroups"] = [
            {
                "InstanceGroupName": group.name,
                "InstanceType": group.instance_type,
                "InstanceCount": group.count,
            }
            for group in settings.groups
        ]
    if settings.preferred_types:
        resources.pop("InstanceType", None)
        count = resources.pop("InstanceCount", 1)
        resources["InstancePreferences"] = [
            {"InstanceType": kind, "InstanceCount": count} for kind in settings.preferred_types
        ]
    if settings.volume_kms_key:
        resources["VolumeKmsKeyId"] = settings.volume_kms_key
    if settings.training_plan:
        resources["TrainingPlanArn"] = settings.training_plan
    return resources


def _stopping(local: Mapping[str, Any], settings: CloudSettings) -> dict[str, int]:
    run_seconds = local.get("MaxRuntimeInSeconds", _DAY_SECONDS)
    stopping = {"MaxRuntimeInSeconds": run_seconds}
    if settings.is_spot:
        # The service counts waiting and training together; machines may be taken several times.
        waited = settings.max_wait_seconds or max(2 * run_seconds, run_seconds + _DAY_SECONDS)
        stopping["MaxWaitTimeInSeconds"] = waited
    if settings.max_pending_seconds:
        stopping["MaxPendingTimeInSeconds"] = settings.max_pending_seconds
    return stopping


def _network(settings: CloudSettings) -> dict[str, Any]:
    part: dict[str, Any] = {}
    if settings.subnets:
        part["VpcConfig"] = {
            "Subnets": list(settings.subnets),
            "SecurityGroupIds": list(settings.security_groups),
        }
    if settings.is_isolated:
        part["EnableNetworkIsolation"] = True
    if settings.is_traffic_encrypted:
        part["EnableInterContainerTrafficEncryption"] = True
    return part
