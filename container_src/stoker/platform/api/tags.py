"""The tags of training, processing and tuning jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.api.service import Operation
from stoker.platform.jobs.describe import make_arn as make_training_arn
from stoker.platform.jobs.store import Store
from stoker.platform.jobs.submission import read_tags
from stoker.platform.model.faults import limit_exceeded, resource_not_found
from stoker.platform.model.processing_request import make_key, make_processing_arn
from stoker.platform.tuning.describe import make_arn as make_tuning_arn
from stoker.platform.tuning.store import TuningStore

_LIMIT = 50  # the service's

TagMap = Mapping[str, str]
Change = Callable[[Callable[[TagMap], dict[str, str]]], TagMap]
"""Replaces the tags of one resource by what a function makes of them; returns the new ones."""


class Tags:
    """AddTags, ListTags and DeleteTags of everything that has an ARN here."""

    def __init__(self, store: Store, tuning_store: TuningStore) -> None:
        self._store = store
        self._tuning_store = tuning_store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {"AddTags": self._add, "ListTags": self._list, "DeleteTags": self._delete}

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"Tags": _show(self._find(params["ResourceArn"])(dict))}

    def _add(self, params: dict[str, Any]) -> dict[str, Any]:
        """A key that is there gets the new value."""
        new = read_tags(params["Tags"])

        def add(tags: TagMap) -> dict[str, str]:
            if len({*tags, *new}) > _LIMIT:
                raise limit_exceeded(f"A resource may have {_LIMIT} tags; this would have more")
            return {**tags, **new}

        return {"Tags": _show(self._find(params["ResourceArn"])(add))}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        gone = set(params["TagKeys"])
        self._find(params["ResourceArn"])(
            lambda tags: {key: value for key, value in tags.items() if key not in gone}
        )
        return {}

    def _find(self, arn: str) -> Change:
        """How the tags of a resource are changed."""
        prefix, _, name = arn.lower().rpartition("/")
        job = self._store.find_lower(name)
        if job is None or not make_training_arn(name).startswith(prefix):
            job = self._store.find_lower(make_key(name))
            if job is not None and not make_processing_arn(name).startswith(prefix):
                job = None
        if job is not None:
            found = job.name
            return lambda change: (
                self._store.change(found, lambda r: replace(r, tags=change(r.tags))).tags
            )
        tuning = next(
            (r.name for r in self._tuning_store.read_all() if r.name.lower() == name), ""
        )
        if tuning and make_tuning_arn(name).startswith(prefix):
            return lambda change: (
                self._tuning_store.change(tuning, lambda r: replace(r, tags=change(r.tags))).tags
            )
        raise resource_not_found(f"Requested resource not found: {arn}")


def _show(tags: TagMap) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
