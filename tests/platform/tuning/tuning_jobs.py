"""Tuning jobs of quick scripts: what a request looks like, and how to wait for one."""

from __future__ import annotations

import textwrap
from typing import Any

from tests.platform.local_server import DEFAULT_BUCKET, ROLE, LocalServer, channel, wait_until

DEADLINE_SECONDS = 500
"""For all trials together, while other tests use the machine."""

OVER = ("Completed", "Stopped", "Failed")
# Reports its rate as its objective, once for each epoch.
SCRIPT = """
    import argparse, json, os, pathlib
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--opt", default="sgd")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    for epoch in range(args.epochs):
        print(f"epoch {epoch} val_acc={args.rate + epoch / 1000}", flush=True)
    pathlib.Path(os.environ["SM_MODEL_DIR"], "rate").write_text(str(args.rate))
"""
RANGES: dict[str, Any] = {
    "ContinuousParameterRanges": [
        {"Name": "rate", "MinValue": "0.1", "MaxValue": "0.9", "ScalingType": "Linear"}
    ],
    "IntegerParameterRanges": [{"Name": "layers", "MinValue": "1", "MaxValue": "4"}],
    "CategoricalParameterRanges": [{"Name": "opt", "Values": ["sgd", "adam"]}],
}
OBJECTIVE = {"Type": "Maximize", "MetricName": "acc"}


def make_definition(server: LocalServer, script: str = SCRIPT, **parts: Any) -> dict[str, Any]:
    """A training job definition; the script comes by the channel `code`."""
    code = server.put(f"code/{abs(hash(script))}/train.py", textwrap.dedent(script))
    static = {"sagemaker_program": "train.py", **parts.pop("StaticHyperParameters", {})}
    definition = {
        "StaticHyperParameters": static,
        "AlgorithmSpecification": {
            "TrainingImage": server.image,
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "acc", "Regex": "val_acc=([0-9.]+)"}],
        },
        "RoleArn": ROLE,
        "InputDataConfig": [channel("code", code.removesuffix("train.py"))],
        "OutputDataConfig": {"S3OutputPath": f"s3://{DEFAULT_BUCKET}/out"},
        "ResourceConfig": {
            "InstanceType": "ml.g5.xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        **parts,
    }
    return {key: part for key, part in definition.items() if part is not None}


def make_request(
    server: LocalServer, name: str, script: str = SCRIPT, **changes: Any
) -> dict[str, Any]:
    """A tuning job; `config`, `limits`, `definition` change parts, None removes a member."""
    limits = {"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 3}
    limits = {k: v for k, v in {**limits, **changes.pop("limits", {})}.items() if v is not None}
    config = {
        "Strategy": "Random",
        "HyperParameterTuningJobObjective": OBJECTIVE,
        "ResourceLimits": limits,
        "ParameterRanges": RANGES,
        "RandomSeed": 7,
        **changes.pop("config", {}),
    }
    request = {
        "HyperParameterTuningJobName": name,
        "HyperParameterTuningJobConfig": {k: v for k, v in config.items() if v is not None},
        "TrainingJobDefinition": make_definition(server, script, **changes.pop("definition", {})),
        **changes,
    }
    return {key: value for key, value in request.items() if value is not None}


def tune(server: LocalServer, name: str, script: str = SCRIPT, **changes: Any) -> str:
    """CreateHyperParameterTuningJob."""
    request = make_request(server, name, script, **changes)
    server.boto("sagemaker").create_hyper_parameter_tuning_job(**request)
    return name


def describe(server: LocalServer, name: str) -> dict[str, Any]:
    return server.boto("sagemaker").describe_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=name
    )


def wait(server: LocalServer, name: str) -> dict[str, Any]:
    """DescribeHyperParameterTuningJob of one that is over."""

    def look() -> dict[str, Any] | None:
        found = describe(server, name)
        return found if found["HyperParameterTuningJobStatus"] in OVER else None

    what = f"the end of {name}; see {server.log_file}"
    return wait_until(look, what, DEADLINE_SECONDS)


def trials(server: LocalServer, name: str, **params: Any) -> list[dict[str, Any]]:
    pages = server.boto("sagemaker").get_paginator(
        "list_training_jobs_for_hyper_parameter_tuning_job"
    )
    return [
        row
        for page in pages.paginate(HyperParameterTuningJobName=name, **params)
        for row in page["TrainingJobSummaries"]
    ]


def value(trial: dict[str, Any]) -> float | None:
    return trial.get("FinalHyperParameterTuningJobObjectiveMetric", {}).get("Value")
