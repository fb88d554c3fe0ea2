"""A folder on this machine that a container sees as /opt/ml, laid out as SageMaker does it."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.contract.cluster import DEFAULT_GROUP, DEFAULT_HOST
from stoker.contract.outcome import read_failure
from stoker.contract.paths import Paths

_LOCAL_INSTANCE = "local"
_IGNORED = shutil.ignore_patterns(".git", "__pycache__", ".venv", "*.pyc")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """What the user wants trained."""

    name: str
    """The job's name; also the name of its folder."""

    source_dir: Path
    """The folder that holds the code."""

    entry_point: str
    """The script, relative to the source folder."""

    channels: Mapping[str, Path]
    """Channel name → folder on this machine."""

    params: Mapping[str, str]
    """Hyperparameters, as texts."""


def make_job_folder(spec: JobSpec, parent: Path) -> Paths:
    """Writes the config files and copies the code; data is mounted or linked, never copied."""
    paths = Paths(root=str(parent / spec.name))
    for folder in (
        paths.config_dir,
        paths.data_dir,
        paths.model_dir,
        paths.output_data_dir,
        paths.checkpoint_dir,
    ):
        Path(folder).mkdir(parents=True)
    shutil.copytree(spec.source_dir, paths.code_dir, ignore=_IGNORED)
    for name, content in _config_files(spec).items():
        Path(paths.config_file(name)).write_text(json.dumps(content, indent=1))
    return paths


def pack_model(paths: Paths) -> Path | None:
    """Packs what the script left in /opt/ml/model; None if it left nothing."""
    model_dir = Path(paths.model_dir)
    if not any(model_dir.iterdir()):
        return None
    target = Path(paths.root) / "model.tar.gz"
    with tarfile.open(target, "w:gz", compresslevel=6) as archive:
        for entry in sorted(model_dir.iterdir()):
            archive.add(entry, arcname=entry.name)
    return target


def failure_reason(paths: Paths) -> str:
    """What SageMaker would show as FailureReason; empty if nothing was written."""
    return read_failure(paths.failure_file)


def _config_files(spec: JobSpec) -> dict[str, object]:
    channel = {
        # Mounted read-only, which is what the service's FastFile mode looks like from inside.
        "TrainingInputMode": "FastFile",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    return {
        "hyperparameters.json": {**spec.params, "sagemaker_program": spec.entry_point},
        "inputdataconfig.json": dict.fromkeys(spec.channels, channel),
        "resourceconfig.json": {
            "current_host": DEFAULT_HOST,
            "hosts": [DEFAULT_HOST],
            "network_interface_name": "eth0",
            "current_instance_type": _LOCAL_INSTANCE,
            "current_group_name": DEFAULT_GROUP,
            "instance_groups": [
                {
                    "instance_group_name": DEFAULT_GROUP,
                    "instance_type": _LOCAL_INSTANCE,
                    "hosts": [DEFAULT_HOST],
                }
            ],
        },
    }
