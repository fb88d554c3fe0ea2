"""Processing jobs as DescribeProcessingJob and ListProcessingJobs return them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.platform.jobs.describe import make_page
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store
from stoker.platform.model.processing_request import PREFIX, make_processing_arn
from stoker.platform.model.request import DEFAULT_RUNTIME_SECONDS

_NOT_ECHOED = {"Tags", "ProcessingJobName"}
_INPUT_DEFAULTS = {
    "S3InputMode": "File",
    "S3DataDistributionType": "FullyReplicated",
    "S3CompressionType": "None",
}


def show_name(record: JobRecord) -> str:
    """As the user knows it."""
    return record.name.removeprefix(PREFIX)


def describe(record: JobRecord) -> dict[str, Any]:
    """DescribeProcessingJob's answer: the request with the service's defaults, and the state."""
    echoed = {key: value for key, value in record.request.items() if key not in _NOT_ECHOED}
    if "ProcessingInputs" in echoed:
        echoed["ProcessingInputs"] = [_fill(each) for each in echoed["ProcessingInputs"]]
    outputs = echoed.get("ProcessingOutputConfig")
    if outputs:
        filled = [{"AppManaged": False, **each} for each in outputs["Outputs"]]
        echoed["ProcessingOutputConfig"] = {**outputs, "Outputs": filled}
    answer = {
        "StoppingCondition": {"MaxRuntimeInSeconds": DEFAULT_RUNTIME_SECONDS},
        **echoed,
        **summarise(record),
    }
    if record.training_started is not None:
        answer["ProcessingStartTime"] = record.training_started
    return answer


def _fill(given: Mapping[str, Any]) -> dict[str, Any]:
    filled = {"AppManaged": False, **given}
    if "S3Input" in given:
        filled["S3Input"] = {**_INPUT_DEFAULTS, **given["S3Input"]}
    return filled


def summarise(record: JobRecord) -> dict[str, Any]:
    """One entry of ListProcessingJobs' answer."""
    name = show_name(record)
    summary: dict[str, Any] = {
        "ProcessingJobName": name,
        "ProcessingJobArn": make_processing_arn(name),
        "CreationTime": record.created,
        "LastModifiedTime": record.modified,
        "ProcessingJobStatus": record.status,
    }
    ended = record.training_ended
    if ended is None and record.stage == "ended":  # before its script began: input is not there
        ended = record.transitions[-1].end
    if ended is not None:
        summary["ProcessingEndTime"] = ended
    if record.stage == "ended" and record.exit_message:
        summary["ExitMessage"] = record.exit_message
    if record.status == "Failed" and record.verdict is not None:
        summary["FailureReason"] = record.verdict.failure_reason
    return summary


def list_jobs(store: Store, params: Mapping[str, Any]) -> dict[str, Any]:
    """One page."""
    found, token = make_page(store, params, kind="processing")
    answer: dict[str, Any] = {"ProcessingJobSummaries": [summarise(record) for record in found]}
    return {**answer, **token}
