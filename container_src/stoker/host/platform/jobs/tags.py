"""Tags of training jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stoker.host.platform.faults import limit_exceeded, resource_not_found
from stoker.host.platform.jobs.describe import make_arn
from stoker.host.platform.jobs.state import JobRecord
from stoker.host.platform.jobs.store import Store

_LIMIT = 50


def read_tags(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """From the API's list of pairs."""
    return {tag["Key"]: tag["Value"] for tag in tags}


def list_tags(store: Store, params: Mapping[str, Any]) -> dict[str, Any]:
    """ListTags."""
    return {"Tags": _show(_find(store, params["ResourceArn"]).tags)}


def add_tags(store: Store, params: Mapping[str, Any]) -> dict[str, Any]:
    """AddTags: a key that is there gets the new value."""
    record = _find(store, params["ResourceArn"])
    new = read_tags(params["Tags"])
    if len({*record.tags, *new}) > _LIMIT:
        raise limit_exceeded(f"A resource may have {_LIMIT} tags; {record.name} would have more")
    changed = store.change(record.name, lambda r: replace(r, tags={**r.tags, **new}))
    return {"Tags": _show(changed.tags)}


def delete_tags(store: Store, params: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteTags."""
    record = _find(store, params["ResourceArn"])
    gone = set(params["TagKeys"])
    store.change(
        record.name,
        lambda r: replace(r, tags={k: v for k, v in r.tags.items() if k not in gone}),
    )
    return {}


def _find(store: Store, arn: str) -> JobRecord:
    for record in store.all():
        if make_arn(record.name) == arn.lower():
            return record
    raise resource_not_found(f"Requested resource not found: {arn}")


def _show(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
