"""Jobs of SageMaker, as the environment's AWS settings reach it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from stoker.errors import HostError
from stoker.machine.failures import UsageRefused


def describe_job(job: str) -> Mapping[str, Any]:
    """DescribeTrainingJob.

    Raises:
        UsageRefused: there is no such job, or boto3 or a region is missing.
        HostError: AWS does not answer, or refuses.
    """
    boto3, exceptions = _import("boto3"), _import("botocore.exceptions")
    try:
        answer = boto3.client("sagemaker").describe_training_job(TrainingJobName=job)
    except exceptions.NoRegionError as error:
        raise UsageRefused(
            f"{job} is not a folder here, and no AWS region is configured to look for a job in",
            fix="set AWS_DEFAULT_REGION, or name the platform's folder: --root DIR",
        ) from error
    except exceptions.ClientError as error:
        if error.response["Error"].get("Code") == "ValidationException":
            raise UsageRefused(
                f"SageMaker has no job {job}", fix="aws sagemaker list-training-jobs"
            ) from error
        raise HostError(f"SageMaker refused: {error}", fix="check the permissions") from error
    except exceptions.BotoCoreError as error:
        raise HostError(f"SageMaker does not answer: {error}", fix="aws configure") from error
    return dict(answer)


def _import(name: str) -> Any:  # noqa: ANN401 - boto3 publishes no types
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageRefused("boto3 is not installed", fix="pip install 'stoker[host]'") from error
