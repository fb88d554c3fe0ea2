"""From what the user wants to a CreateTrainingJob request; pure: a dry run is the truth."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.contract.code import CODE_CHANNEL
from stoker.contract.debugger import HOOK_VARIABLE
from stoker.platform.model.root import ACCOUNT, DEFAULT_BUCKET

ARCHIVE_NAME = "sourcedir.tar.gz"
_ROLE = f"arn:aws:iam::{ACCOUNT}:role/stoker-local"
_INSTANCE_TYPE = "ml.m5.xlarge"
_VOLUME_GB = 30
_DAY_SECONDS = 24 * 3600
_LEFT_OUT = {".git", "__pycache__", ".venv", ".work", ".mypy_cache", ".pytest_cache"}
_DIGEST_LETTERS = 16


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

    instances: int = 1
    spot: str | None = None
    """When the job is interrupted, in STOKER_SPOT's words; None: it is no spot job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """A folder of this machine and the prefix it goes to, with what tells one version apart."""

    folder: Path
    prefix: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """All that has to be done: files to send, code to pack, one request."""

    uploads: tuple[Upload, ...]
    source_dir: Path
    source_key: str
    """Where the packed code goes, in the default bucket."""

    request: Mapping[str, Any]
    """For CreateTrainingJob, as it is."""


def make_submission(spec: TrainingSpec) -> Submission:
    """What `stoker train` would send; folders are looked at, nothing is written."""
    source_prefix = f"{spec.name}/source/"
    uploads = {
        name: Upload(folder=place, prefix=f"stoker/inputs/{name}-{fingerprint(place)}/")
        for name, place in spec.channels.items()
        if isinstance(place, Path)
    }
    addresses = {
        name: _address(uploads[name].prefix) if name in uploads else str(place)
        for name, place in spec.channels.items()
    }
    # The code travels as a channel: no AWS library is needed in the container to fetch it.
    addresses[CODE_CHANNEL] = _address(source_prefix)
    return Submission(
        uploads=tuple(uploads.values()),
        source_dir=spec.source_dir,
        source_key=f"{source_prefix}{ARCHIVE_NAME}",
        request=_request(spec, addresses),
    )


def fingerprint(folder: Path) -> str:
    """Names, sizes and times of all files: the same folder is sent once, a changed one anew."""
    digest = hashlib.sha256()
    for file in list_files(folder):
        state = file.stat()
        name = file.relative_to(folder)
        digest.update(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:_DIGEST_LETTERS]


def list_files(folder: Path) -> Iterator[Path]:
    """All ordinary files below a folder, links followed, in an order that does not change."""
    return (file for file in sorted(folder.rglob("*")) if file.is_file())


def pack_source(folder: Path, target: Path) -> None:
    """The code as one archive, without what no job needs."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if _LEFT_OUT & set(member.name.split("/")) else member

    with tarfile.open(target, "w:gz", compresslevel=3) as archive:
        for entry in sorted(folder.iterdir()):
            archive.add(entry, arcname=entry.name, filter=kept)


def _request(spec: TrainingSpec, addresses: Mapping[str, str]) -> dict[str, Any]:
    request: dict[str, Any] = {
        "TrainingJobName": spec.name,
        "RoleArn": _ROLE,
        "AlgorithmSpecification": {
            "TrainingImage": spec.image,
            "TrainingInputMode": "File",
            **_metric_definitions(spec),
        },
        "HyperParameters": {**spec.params, "sagemaker_program": spec.entry_point},
        "InputDataConfig": [_channel(name, uri) for name, uri in addresses.items()],
        "OutputDataConfig": {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"},
        # Without it nothing of TensorBoard's reaches S3, and `stoker tensorboard JOB` has nothing.
        "TensorBoardOutputConfig": {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"},
        "ResourceConfig": {
            "InstanceType": _INSTANCE_TYPE,
            "InstanceCount": spec.instances,
            "VolumeSizeInGB": _VOLUME_GB,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": _DAY_SECONDS},
    }
    return {**request, **_environment_part(spec), **(_spot_part(spec) if spec.spot else {})}


def _environment_part(spec: TrainingSpec) -> dict[str, Any]:
    environ = {**spec.environ, **({"STOKER_SPOT": spec.spot} if spec.spot else {})}
    parts: dict[str, Any] = {"Environment": environ} if environ else {}
    if HOOK_VARIABLE in environ:
        # Else the tensors would go with the container.
        parts["DebugHookConfig"] = {"S3OutputPath": f"s3://{DEFAULT_BUCKET}"}
    return parts


def _spot_part(spec: TrainingSpec) -> dict[str, Any]:
    stopping = {"MaxRuntimeInSeconds": _DAY_SECONDS, "MaxWaitTimeInSeconds": 2 * _DAY_SECONDS}
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
