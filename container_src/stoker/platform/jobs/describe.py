"""Jobs as DescribeTrainingJob and ListTrainingJobs return them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.platform.jobs.rule_statuses import describe_rules
from stoker.platform.jobs.state import JobRecord, Transition
from stoker.platform.model.faults import validation
from stoker.platform.model.root import ACCOUNT, REGION

_ENDED = ("Completed", "Stopped", "Failed")
_NOT_ECHOED = {"Tags", "TrainingJobName", "SessionChainingConfig"}


def make_arn(name: str) -> str:
    """A training job's ARN; the service writes the name in lower case."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/{name.lower()}"


def describe(record: JobRecord) -> dict[str, Any]:
    """DescribeTrainingJob's answer."""
    echoed = {key: value for key, value in record.request.items() if key not in _NOT_ECHOED}
    answer = {
        "StoppingCondition": {},
        **echoed,
        **summarise(record),
        "ModelArtifacts": {"S3ModelArtifacts": record.model_uri},
        "SecondaryStatusTransitions": [_transition(each) for each in record.transitions],
        **describe_rules(record),
        **_times(record),
    }
    verdict = record.verdict
    if record.status == "Failed" and verdict is not None:
        answer["FailureReason"] = verdict.failure_reason
    if record.metrics:
        answer["FinalMetricDataList"] = [
            {"MetricName": each.name, "Value": each.value, "Timestamp": each.timestamp}
            for each in record.metrics
        ]
    return answer


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
    return summary


def gap_seconds(record: JobRecord) -> float:
    """Time between interruptions and the training that followed, if any: nobody pays for it."""
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


_PAGE = 10
_ORDERS: Mapping[str, Callable[[JobRecord], tuple[Any, str]]] = {
    "Name": lambda record: (record.name, record.name),
    "CreationTime": lambda record: (record.created, record.name),
    "Status": lambda record: (record.status, record.name),
}


def list_jobs(records: Iterable[JobRecord], params: Mapping[str, Any]) -> dict[str, Any]:
    """One page. The token holds the place of the last job shown, so new ones disturb nothing."""
    key = _ORDERS[params.get("SortBy", "CreationTime")]
    falling = params.get("SortOrder", "Ascending") == "Descending"
    found = sorted((r for r in records if _matches(r, params)), key=key, reverse=falling)
    if "NextToken" in params:
        last = _read_token(params["NextToken"], type(key(found[0])[0]) if found else object)
        found = [r for r in found if (key(r) < last if falling else key(r) > last)]
    size = params.get("MaxResults", _PAGE)
    page = found[:size]
    answer: dict[str, Any] = {"TrainingJobSummaries": [summarise(record) for record in page]}
    if len(found) > size:
        answer["NextToken"] = base64.urlsafe_b64encode(json.dumps(key(page[-1])).encode()).decode()
    return answer


def _matches(record: JobRecord, params: Mapping[str, Any]) -> bool:
    ranges = (
        ("CreationTimeAfter", "CreationTimeBefore", record.created),
        ("LastModifiedTimeAfter", "LastModifiedTimeBefore", record.modified),
    )
    return (
        all(
            params.get(after, value) <= value <= params.get(before, value)
            for after, before, value in ranges
        )
        and params.get("NameContains", "").lower() in record.name.lower()
        and params.get("StatusEquals", record.status) == record.status
        # Neither warm pools nor training plans exist here: nothing matches them.
        and not {"WarmPoolStatusEquals", "TrainingPlanArnEquals"} & params.keys()
    )


def _read_token(token: str, kind: type) -> tuple[Any, str]:
    """The place a token holds; one of a list in another order has no meaning in this one."""
    try:
        value, name = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, binascii.Error) as error:
        raise validation(f"Invalid NextToken: {token}") from error
    if not isinstance(value, kind) or not isinstance(name, str):
        raise validation(f"Invalid NextToken: {token}")
    return value, name
