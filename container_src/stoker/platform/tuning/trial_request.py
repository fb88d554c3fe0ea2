"""The CreateTrainingJob request of one trial."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

OBJECTIVE_KEY = "_tuning_objective_metric"
_SAME = (
    *("RoleArn", "InputDataConfig", "VpcConfig", "OutputDataConfig", "StoppingCondition"),
    *("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption"),
    *("EnableManagedSpotTraining", "RetryStrategy", "Environment"),
)


def make_job_name(tuning_job: str, created: float, number: int) -> str:
    """`<name>-NNN-xxxxxxxx`: the same whenever it is made, so no trial is created twice."""
    # With the time: a search that was deleted and made again must not find the first one's jobs.
    made_of = f"{tuning_job}/{created}/{number}".encode()
    return f"{tuning_job}-{number:03}-{hashlib.sha256(made_of).hexdigest()[:8]}"


def make_trial_request(
    definition: Mapping[str, Any],
    name: str,
    metric: str,
    parameters: Mapping[str, str],
    tags: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """An ordinary training job.

    Args:
        definition: the training job definition.
        name: of the training job.
        metric: the objective; the container learns it as a hyperparameter.
        parameters: the tuned hyperparameters.
        tags: of the tuning job; all its training jobs have them.
    """
    algorithm = dict(definition["AlgorithmSpecification"])
    request = {
        "TrainingJobName": name,
        "AlgorithmSpecification": algorithm,
        "HyperParameters": {
            **definition.get("StaticHyperParameters", {}),
            **parameters,
            OBJECTIVE_KEY: metric,
        },
        "ResourceConfig": read_resources(definition),
        **{key: definition[key] for key in _SAME if key in definition},
        "Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()],
    }
    if checkpoint := definition.get("CheckpointConfig"):
        # A folder for each trial: no trial may begin with another one's weights.
        uri = f"{checkpoint['S3Uri'].rstrip('/')}/{name}"
        request["CheckpointConfig"] = {**checkpoint, "S3Uri": uri}
    return request


def read_resources(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The ResourceConfig, of either form; of several instance types the first is taken."""
    if "ResourceConfig" in definition:
        return dict(definition["ResourceConfig"])
    asked = definition.get("HyperParameterTuningResourceConfig", {})
    chosen = {**asked, **(asked.get("InstanceConfigs") or [{}])[0]}
    kept = ("InstanceType", "InstanceCount", "VolumeSizeInGB", "VolumeKmsKeyId")
    return {key: chosen[key] for key in kept if key in chosen}
