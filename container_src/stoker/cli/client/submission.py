"""From what the user wants to a CreateTrainingJob request; pure: a dry run is the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.cli.client.source import ARCHIVE_NAME, Source, read_source
from stoker.contract.code import CODE_CHANNEL
from stoker.contract.debugger import HOOK_VARIABLE
from stoker.contract.profiler import VARIABLE as PROFILE_VARIABLE
from stoker.platform.model.root import DEFAULT_BUCKET, ROLE_ARN

INSTANCE_TYPE = "ml.m5.xlarge"
VOLUME_GB = 30  # SDK v2's default
DAY_SECONDS = 24 * 3600  # SDK v2's default for the longest run


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSpec:
    """What the user wants trained."""

    name: str
    """The job's name."""

    image: str
    source_dir: Path
    """The folder that holds the code."""

    entry_point: str
    """The script, relative to the source folder."""

    channels: Mapping[str, Path | str] = field(default_factory=dict)
    """Channel name → folder of this machine, or an s3:// address."""

    params: Mapping[str, str] = field(default_factory=dict)
    """Hyperparameters, as texts."""

    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric name → regular expression with one group, applied to each line of the log."""

    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables of the job."""

    tags: Mapping[str, str] = field(default_factory=dict)
    instances: int = 1
    instance_type: str = INSTANCE_TYPE
    volume_gb: int = VOLUME_GB
    max_run_seconds: int = DAY_SECONDS
    keep_alive_seconds: int = 0
    """For how long a container is kept ready for the next job."""

    is_large_source_allowed: bool = False
    spot: str | None = None
    """When the job is interrupted, in STOKER_SPOT's words; None: it is not a spot job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """All that has to be done: code to pack and send, one request."""

    source: Source
    source_key: str
    """Where the packed code goes, in the default bucket; the same code has the same place."""

    request: Mapping[str, Any]
    """For CreateTrainingJob or CreateHyperParameterTuningJob, as it is."""


def make_submission(spec: TrainingSpec) -> Submission:
    """What `stoker train` would send; folders are looked at, nothing is written."""
    source = read_source(
        spec.source_dir,
        spec.entry_point,
        channels=[place for place in spec.channels.values() if isinstance(place, Path)],
        is_large_allowed=spec.is_large_source_allowed,
    )
    source_prefix = f"stoker/code/{source.digest}/"
    # The platform reads folders of its own machine where they are: nothing is sent or stored.
    addresses = {
        name: place.as_uri() if isinstance(place, Path) else place
        for name, place in spec.channels.items()
    }
    # The code travels as a channel: no AWS library is needed in the container to fetch it.
    addresses[CODE_CHANNEL] = _address(source_prefix)
    return Submission(
        source=source,
        source_key=f"{source_prefix}{ARCHIVE_NAME}",
        request=_request(spec, addresses),
    )


def _request(spec: TrainingSpec, addresses: Mapping[str, str]) -> dict[str, Any]:
    request: dict[str, Any] = {
        "TrainingJobName": spec.name,
        "RoleArn": ROLE_ARN,
        "AlgorithmSpecification": {
            "TrainingImage": spec.image,
            "TrainingInputMode": "File",
            **_metric_definitions(spec),
        },
        # Last, so that no --param can replace the script.
        "HyperParameters": {**spec.params, "sagemaker_program": spec.entry_point},
        "InputDataConfig": [_channel(name, uri) for name, uri in addresses.items()],
        "OutputDataConfig": {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"},
        # Without it nothing of TensorBoard's reaches S3, and `stoker tensorboard JOB` has nothing.
        "TensorBoardOutputConfig": {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"},
        "ResourceConfig": {
            "InstanceType": spec.instance_type,
            "InstanceCount": spec.instances,
            "VolumeSizeInGB": spec.volume_gb,
            **_keep_alive(spec),
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": spec.max_run_seconds},
    }
    if spec.tags:
        request["Tags"] = [{"Key": key, "Value": text} for key, text in spec.tags.items()]
    return {**request, **_environment_part(spec), **(_spot_part(spec) if spec.spot else {})}


def _keep_alive(spec: TrainingSpec) -> dict[str, int]:
    return {"KeepAlivePeriodInSeconds": spec.keep_alive_seconds} if spec.keep_alive_seconds else {}


def _environment_part(spec: TrainingSpec) -> dict[str, Any]:
    environ = {**spec.environ, **({"STOKER_SPOT": spec.spot} if spec.spot else {})}
    parts: dict[str, Any] = {"Environment": environ} if environ else {}
    if HOOK_VARIABLE in environ:
        # Else the tensors would go with the container.
        parts["DebugHookConfig"] = {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"}
    if "auto" in environ.get(PROFILE_VARIABLE, ""):
        parts["ProfilerConfig"] = {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"}
    return parts


def _spot_part(spec: TrainingSpec) -> dict[str, Any]:
    run_seconds = spec.max_run_seconds
    # CreateTrainingJob refuses a MaxWaitTime below MaxRuntime.
    wait_seconds = max(2 * DAY_SECONDS, run_seconds)
    stopping = {"MaxRuntimeInSeconds": run_seconds, "MaxWaitTimeInSeconds": wait_seconds}
    return {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": stopping,
        "CheckpointConfig": {"S3Uri": f"s3://{DEFAULT_BUCKET}/{spec.name}/checkpoints"},
    }


def _metric_definitions(spec: TrainingSpec) -> dict[str, Any]:
    definitions = [{"Name": name, "Regex": regex} for name, regex in spec.metrics.items()]
    return {"MetricDefinitions": definitions} if definitions else {}


def _channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def _address(key: str) -> str:
    return f"s3://{DEFAULT_BUCKET}/{key}"
