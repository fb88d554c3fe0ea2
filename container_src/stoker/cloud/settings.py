"""What a job in the cloud needs and a job here does not: role, network, keys, queue.

Three places have them, the later one wins: the SDKs' config.yaml, `[train]` in stoker.toml, the
options of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.machine.failures import UsageRefused

_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+|[\w+=,.@-]{1,64}", re.ASCII)
_OUTPUT = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
_QUEUE = re.compile(r"arn:aws[a-z-]*:batch:[\w-]+:\d{12}:job-queue/.+|[\w-]{1,128}", re.ASCII)
# Of SubmitServiceJob; its documentation has the limit, botocore's model has not.
_HIGHEST_PRIORITY = 9999


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceGroup:
    """One group of a mixed cluster."""

    name: str
    instance_type: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudSettings:
    """Everything that is decided for the cloud alone; None and empty: the service's default."""

    region: str | None = None
    role: str | None = None
    """An ARN or a name; None: found by IAM."""

    output: str | None = None
    """s3://BUCKET/PREFIX for everything the job is given and leaves; None: the SDKs' bucket."""

    subnets: Sequence[str] = ()
    security_groups: Sequence[str] = ()
    output_kms_key: str | None = None
    volume_kms_key: str | None = None
    is_isolated: bool = False
    is_traffic_encrypted: bool = False
    is_spot: bool = False
    max_wait_seconds: int | None = None
    """For spot: how long to wait and train; None: twice the run time, at least a day more."""

    max_pending_seconds: int | None = None
    groups: Sequence[InstanceGroup] = ()
    preferred_types: Sequence[str] = ()
    """Instance types in order; the service takes the first that it has."""

    training_plan: str | None = None
    is_debugged: bool = False
    """RemoteDebugConfig: a shell in the container through Systems Manager."""

    queue: str | None = None
    """A job queue of AWS Batch that submits the job when it is its turn."""

    priority: int | None = None
    share: str | None = None
    repository: str | None = None
    """Where a local image is pushed: the name of an ECR repository, or REGISTRY/NAME."""

    tags: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


def merge_sdk_config(settings: CloudSettings, config: Mapping[str, Any]) -> CloudSettings:
    """The settings, completed by the SDKs' config.yaml."""
    network = config.get("VpcConfig") or {}
    output = config.get("OutputDataConfig") or {}
    resources = config.get("ResourceConfig") or {}
    bucket = config.get("DefaultS3Bucket")
    prefix = config.get("DefaultS3ObjectKeyPrefix")
    usual = f"s3://{bucket}{f'/{prefix}' if prefix else ''}" if bucket else None
    return replace(
        settings,
        role=settings.role or config.get("RoleArn"),
        output=settings.output or output.get("S3OutputPath") or usual,
        subnets=settings.subnets or tuple(network.get("Subnets") or ()),
        security_groups=settings.security_groups or tuple(network.get("SecurityGroupIds") or ()),
        output_kms_key=settings.output_kms_key or output.get("KmsKeyId"),
        volume_kms_key=settings.volume_kms_key or resources.get("VolumeKmsKeyId"),
        is_isolated=settings.is_isolated or bool(config.get("EnableNetworkIsolation")),
        is_traffic_encrypted=settings.is_traffic_encrypted
        or bool(config.get("EnableInterContainerTrafficEncryption")),
        tags={**{t["Key"]: t["Value"] for t in config.get("Tags") or ()}, **settings.tags},
        environ={**(config.get("Environment") or {}), **settings.environ},
    )


def require_sense(settings: CloudSettings) -> None:
    """
    Raises:
        UsageRefused: settings do not go together, or are not valid names; all are named.
    """
    mistakes = [*_find_mistakes(settings), *_find_bad_names(settings)]
    if mistakes:
        raise UsageRefused("; ".join(mistakes), fix="change the options that are named")


def require_names(settings: CloudSettings) -> None:
    """
    Raises:
        UsageRefused: region, role, bucket or queue cannot be what AWS has; all are named.
    """
    if mistakes := list(_find_bad_names(settings)):
        raise UsageRefused("; ".join(mistakes), fix="change the options that are named")


def _find_mistakes(settings: CloudSettings) -> list[str]:
    rules = (
        (
            bool(settings.subnets) != bool(settings.security_groups),
            "a VPC needs both, --subnet and --security-group",
        ),
        (
            settings.max_wait_seconds is not None and not settings.is_spot,
            "--max-wait is for spot instances: pass --use-spot, too",
        ),
        (
            bool(settings.preferred_types) and settings.is_spot,
            "--prefer is not for spot instances: SageMaker takes on-demand ones only",
        ),
        (
            bool(settings.preferred_types) and bool(settings.groups),
            "--prefer and --instance-group exclude each other",
        ),
        (
            settings.queue is None and (settings.priority is not None or bool(settings.share)),
            "--priority and --share are of a --queue",
        ),
        (
            not 0 <= (settings.priority or 0) <= _HIGHEST_PRIORITY,
            f"--priority {settings.priority} is not from 0 to {_HIGHEST_PRIORITY}",
        ),
    )
    return [text for is_wrong, text in rules if is_wrong]


def _find_bad_names(settings: CloudSettings) -> Iterator[str]:
    shapes = (
        ("region", settings.region, _REGION, "not a valid name: it is one such as us-east-1"),
        ("--role", settings.role, _ROLE, "neither the ARN nor the name of a role"),
        ("--output", settings.output, _OUTPUT, "not s3://BUCKET/PREFIX with a valid bucket name"),
        ("--queue", settings.queue, _QUEUE, "neither the name nor the ARN of a queue"),
    )
    for option, value, shape, what in shapes:
        if value is not None and not shape.fullmatch(value):
            yield f"{option} {value} is {what}"
