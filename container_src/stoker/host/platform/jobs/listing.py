"""ListTrainingJobs: filtered, sorted, in pages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.host.platform.faults import validation
from stoker.host.platform.jobs.describe import summarise
from stoker.host.platform.jobs.state import JobRecord

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
        last = _read_token(params["NextToken"])
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


def _read_token(token: str) -> tuple[Any, str]:
    try:
        value, name = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, binascii.Error) as error:
        raise validation(f"Invalid NextToken: {token}") from error
    return value, name
