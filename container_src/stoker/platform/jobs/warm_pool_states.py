"""What happens to a job's warm pool: pure functions.

InUse → Available → Reused, when a matching job takes it, or Terminated, when its time is over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.jobs.changes import is_our_fault, keeps_warm
from stoker.platform.jobs.state import JobRecord, WarmPool

_IGNORED = ("KeepAlivePeriodInSeconds",)
_MATCHED = (
    "RoleArn",
    "VpcConfig",
    "EnableInterContainerTrafficEncryption",
    "SessionChainingConfig",
)


def read_period_seconds(request: Mapping[str, Any]) -> int:
    """For how long the resources of a job are kept; 0 if they are not."""
    seconds: int = request["ResourceConfig"].get("KeepAlivePeriodInSeconds", 0)
    return seconds


def make_match(request: Mapping[str, Any]) -> str:
    """Jobs that agree in this may use each other's pool; as in the service, not the image."""
    resources = {k: v for k, v in request["ResourceConfig"].items() if k not in _IGNORED}
    return json.dumps([resources, {k: request.get(k) or None for k in _MATCHED}], sort_keys=True)


def release(record: JobRecord, now: float) -> JobRecord:
    """The job has ended. After a fault of the platform, or before a start, nothing is kept."""
    if record.warm is None:
        return record
    is_kept = record.attempts and record.verdict and not is_our_fault(record.verdict)
    if not is_kept or not read_period_seconds(record.request):
        return terminate(record, now)
    until = now + read_period_seconds(record.request)
    return replace(record, warm=WarmPool(status="Available", since=now, until=until))


def pass_on(record: JobRecord, job: str, now: float) -> JobRecord:
    """A matching job takes the pool."""
    if record.warm is None:
        return record
    return replace(record, warm=replace(record.warm, status="Reused", ended=now, reused_by=job))


def terminate(record: JobRecord, now: float) -> JobRecord:
    """Nothing is kept any more."""
    if record.warm is None:
        return record
    return replace(record, warm=replace(record.warm, status="Terminated", ended=now))


def change_period(record: JobRecord) -> JobRecord:
    """The request has another period by now; it counts from the end of the job, as the first."""
    if record.stage != "ended":
        return replace(
            record, warm=WarmPool(status="InUse") if keeps_warm(record.request) else None
        )
    if record.warm is None or record.warm.since is None:
        return record
    until = record.warm.since + read_period_seconds(record.request)
    return replace(record, warm=replace(record.warm, until=until))


def describe_pool(record: JobRecord, now: float) -> dict[str, Any]:
    """The member WarmPoolStatus of an answer; none for a job without a period."""
    warm = record.warm
    if warm is None:
        return {}
    shown: dict[str, Any] = {"Status": warm.status}
    if warm.since is not None:
        retained = (warm.ended or now) - warm.since
        shown["ResourceRetainedBillableTimeInSeconds"] = max(0, round(retained))
    if warm.reused_by:
        shown["ReusedByJob"] = warm.reused_by
    return {"WarmPoolStatus": shown}
