"""Jobs as DescribeTrainingJob and ListTrainingJobs return them."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from stoker.platform.jobs.rule_statuses import describe_rules
from stoker.platform.jobs.state import JobRecord, Transition
from stoker.platform.jobs.store import JobKind, JobQuery, Store
from stoker.platform.jobs.warm_pool_states import describe_pool
from stoker.platform.model.faults import validation
from stoker.platform.model.instances import describe_choice
from stoker.platform.model.request import (
    DEFAULT_RUNTIME_SECONDS,
    DEFAULT_VOLUME_GB,
    parse_profiler,
)
from stoker.platform.model.root import ACCOUNT, REGION

_ENDED = ("Completed", "Stopped", "Failed")
# Members of the request that the answer does not have, or has from the record.
_NOT_ECHOED = {"Tags", "TrainingJobName", "SessionChainingConfig"}
_SWITCHES = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "AlgorithmSpecification": {"MetricDefinitions": []},
    "HyperParameters": {},
    "OutputDataConfig": {"KmsKeyId": "", "CompressionType": "GZIP"},
    "ResourceConfig": {"VolumeSizeInGB": DEFAULT_VOLUME_GB},
    "StoppingCondition": {"MaxRuntimeInSeconds": DEFAULT_RUNTIME_SECONDS},
}
_LIST_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "InputDataConfig": {"CompressionType": "None", "RecordWrapperType": "None"},
    "DebugRuleConfigurations": {"VolumeSizeInGB": 0},
    "ProfilerRuleConfigurations": {"VolumeSizeInGB": 0},
}
_PROFILER_DEFAULTS = {"ProfilingIntervalInMilliseconds": 500, "DisableProfiler": False}


def make_arn(name: str) -> str:
    """A training job's ARN; the service writes the name in lower case."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/{name.lower()}"


def describe(record: JobRecord) -> dict[str, Any]:
    """DescribeTrainingJob's answer."""
    answer = {
        **_echo(record.request),
        **summarise(record),
        "ModelArtifacts": {"S3ModelArtifacts": record.model_uri},
        "SecondaryStatusTransitions": [_transition(each) for each in record.transitions],
        **describe_rules(record),
        **_times(record),
    }
    verdict = record.verdict
    if record.status == "Failed" and verdict is not None:
        answer["FailureReason"] = verdict.failure_reason
    if record.tuning_job_arn:
        answer["TuningJobArn"] = record.tuning_job_arn
    if record.metrics:
        answer["FinalMetricDataList"] = [
            {"MetricName": each.name, "Value": each.value, "Timestamp": each.timestamp}
            for each in record.metrics
        ]
    return answer


def _echo(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request with the members the service adds; the SDKs read them without a default."""
    echoed = {key: value for key, value in request.items() if key not in _NOT_ECHOED}
    filled: dict[str, Any] = {**_SWITCHES, **echoed}
    for key, defaults in _DEFAULTS.items():
        filled[key] = {**defaults, **echoed.get(key, {})}
    filled["ResourceConfig"].update(describe_choice(filled["ResourceConfig"]))
    for key, defaults in _LIST_DEFAULTS.items():
        if key in echoed:
            filled[key] = [{**defaults, **item} for item in echoed[key]]
    for channel in filled.get("InputDataConfig", ()):
        if s3 := channel["DataSource"].get("S3DataSource"):
            whole = {"S3DataDistributionType": "FullyReplicated", **s3}
            channel["DataSource"] = {"S3DataSource": whole}
    profiled = parse_profiler(request.get("ProfilerConfig")) is not None
    filled["ProfilingStatus"] = "Enabled" if profiled else "Disabled"
    if profiled:
        filled["ProfilerConfig"] = {**_PROFILER_DEFAULTS, **echoed["ProfilerConfig"]}
    return filled


def summarise(record: JobRecord) -> dict[str, Any]:
    """One entry of ListTrainingJobs' answer."""
    summary: dict[str, Any] = {
        "TrainingJobName": record.name,
        "TrainingJobArn": make_arn(record.name),
        "CreationTime": record.created,
        "LastModifiedTime": record.modified,
        "TrainingJobStatus": record.status,
        "SecondaryStatus": record.secondary,
    }
    if record.training_ended is not None:
        summary["TrainingEndTime"] = record.training_ended
    return {**summary, **describe_pool(record, time.time())}


def gap_seconds(record: JobRecord) -> float:
    """Time between interruptions and the training that followed, if any: it is not billed."""
    trained = [attempt for attempt in record.attempts if attempt.began is not None]
    if not trained:
        return 0.0
    ends = [attempt.ended for attempt in trained]
    resumed = [attempt.began for attempt in trained[1:]]
    if record.attempt.began is None or record.attempt.cause == "interrupted":
        resumed.append(record.training_ended)  # it waited for capacity to the end
    gaps = [(ended, began) for ended, began in zip(ends, resumed, strict=False)]
    return sum(began - ended for ended, began in gaps if ended is not None and began is not None)


def _times(record: JobRecord) -> dict[str, Any]:
    started, ended = record.training_started, record.training_ended
    if started is None:
        return {}
    times: dict[str, Any] = {"TrainingStartTime": started}
    if ended is not None and record.status in _ENDED:
        times["TrainingTimeInSeconds"] = _whole_seconds(ended - started)
        times["BillableTimeInSeconds"] = _whole_seconds(ended - started - gap_seconds(record))
    return times


def _whole_seconds(seconds: float) -> int:
    return max(1, round(seconds))


def _transition(each: Transition) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "Status": each.status,
        "StartTime": each.start,
        "StatusMessage": each.message,
    }
    if each.end is not None:
        shown["EndTime"] = each.end
    return shown


_PAGE = 10  # the service's default
_ORDERS: Mapping[str, Literal["name", "created", "status"]] = {
    "Name": "name",
    "CreationTime": "created",
    "Status": "status",
}
_VALUES: Mapping[str, Callable[[JobRecord], str | float]] = {
    "name": lambda record: record.name,
    "created": lambda record: record.created,
    "status": lambda record: record.status,
}


def list_jobs(store: Store, params: Mapping[str, Any]) -> dict[str, Any]:
    """One page. The token holds the place of the last job shown, so new jobs shift nothing."""
    if "TrainingPlanArnEquals" in params:  # there are none here
        return {"TrainingJobSummaries": []}
    found, token = make_page(store, params)
    answer: dict[str, Any] = {"TrainingJobSummaries": [summarise(record) for record in found]}
    return {**answer, **token}


def make_page(
    store: Store, params: Mapping[str, Any], *, kind: JobKind = "training"
) -> tuple[list[JobRecord], dict[str, str]]:
    """The jobs that a list call asks for, and the member NextToken if there are more."""
    size = params.get("MaxResults", _PAGE)
    order = _ORDERS[params.get("SortBy", "CreationTime")]
    found = store.page(
        JobQuery(
            # One more than is shown: whether there is a next page.
            limit=size + 1,
            kind=kind,
            order=order,
            descending=params.get("SortOrder", "Ascending") == "Descending",
            after=_read_token(params["NextToken"], order) if "NextToken" in params else None,
            name_contains=params.get("NameContains", ""),
            status=params.get("StatusEquals"),
            warm_status=params.get("WarmPoolStatusEquals"),
            created=(params.get("CreationTimeAfter"), params.get("CreationTimeBefore")),
            modified=(params.get("LastModifiedTimeAfter"), params.get("LastModifiedTimeBefore")),
        )
    )
    page = found[:size]
    if len(found) <= size:
        return page, {}
    return page, {"NextToken": _make_token(_VALUES[order](page[-1]), page[-1].name)}


def _make_token(value: str | float, name: str) -> str:
    return base64.urlsafe_b64encode(json.dumps((value, name)).encode()).decode()


def _read_token(token: str, order: str) -> tuple[str | float, str]:
    """The place a token holds; one of a list in another order has no meaning in this one."""
    try:
        value, name = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, binascii.Error) as error:
        raise validation(f"Invalid NextToken: {token}") from error
    kind = (int, float) if order == "created" else str
    if not isinstance(value, kind) or not isinstance(name, str):
        raise validation(f"Invalid NextToken: {token}")
    return value, name
