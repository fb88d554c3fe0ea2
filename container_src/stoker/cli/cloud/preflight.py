"""What AWS would refuse in a request, found before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.cloud.request import make_queue_request
from stoker.cloud.settings import CloudSettings
from stoker.machine.failures import UsageRefused
from stoker.machine.units import show_seconds
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.request_rules import find_mistakes

# AWS may know types that this boto3 does not: a remark names them, and AWS decides.
_KNOWN_TYPE = "ml.m5.large"


def require_accepted(request: Mapping[str, Any], settings: CloudSettings) -> None:
    """
    Args:
        request: CreateTrainingJob's or CreateHyperParameterTuningJob's.
        settings: that it was made with.

    Raises:
        UsageRefused: fields do not go together, or do not fit botocore's model of the services.
    """
    training = request.get("TrainingJobDefinition", request)
    mistakes = [*_find_time_mistakes(training["StoppingCondition"])]
    if training is not request:
        given = {"--queue": settings.queue, "--remote-debug": settings.is_debugged}
        mistakes += [f"a search has no {name}" for name, value in given.items() if value]
    # These rules are of training jobs; `stoker tune` has checked those of searches.
    if not mistakes and training is request:
        mistakes = find_mistakes(request)
    if not mistakes:
        mistakes = list(_find_model_mistakes(request, settings))
    if mistakes:
        raise UsageRefused("; ".join(mistakes), fix="change the options that the message is about")


def _find_time_mistakes(stopping: Mapping[str, int]) -> Iterator[str]:
    run, wait = stopping["MaxRuntimeInSeconds"], stopping.get("MaxWaitTimeInSeconds")
    if wait is not None and wait < run:
        yield (
            f"--max-wait {show_seconds(wait)} is shorter than --max-run {show_seconds(run)}:"
            " it counts waiting and training together"
        )


def _find_model_mistakes(request: Mapping[str, Any], settings: CloudSettings) -> Iterator[str]:
    # Here, not above: it loads botocore, and every `stoker tune` loads this module.
    from stoker.platform.api.service_model import require_valid

    is_search = "HyperParameterTuningJobName" in request
    operation = "CreateHyperParameterTuningJob" if is_search else "CreateTrainingJob"
    calls = [("sagemaker", operation, request)]
    if settings.queue:
        calls.append(("batch", "SubmitServiceJob", make_queue_request(request, settings)))
    for service, name, parameters in calls:
        try:
            require_valid(service, name, _with_known_types(parameters))
        except ApiFault as fault:
            yield fault.message


def _with_known_types(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {
            key: _KNOWN_TYPE if key == "InstanceType" and part else _with_known_types(part)
            for key, part in value.items()
        }
    return [_with_known_types(part) for part in value] if isinstance(value, list) else value
