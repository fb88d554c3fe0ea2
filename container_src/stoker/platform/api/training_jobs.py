"""The operations of training jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.api.service import Operation
from stoker.platform.api.shared_operations import JobOperations, require_unfinished
from stoker.platform.data.config_files import write_config_files
from stoker.platform.jobs.describe import describe, list_jobs, make_arn
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import UnknownJob
from stoker.platform.jobs.submission import require_buckets
from stoker.platform.jobs.warm_pool_states import change_period
from stoker.platform.model.faults import resource_not_found
from stoker.platform.model.request import read_request

_UPDATABLE = (
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "ResourceConfig",
    "RemoteDebugConfig",
)

_READ_AGAIN = {"ProfilerConfig", "ProfilerRuleConfigurations"}


class TrainingJobs:
    """The operations of training jobs; safe to call from several threads."""

    def __init__(self, jobs: JobOperations) -> None:
        self._jobs = jobs
        self._context = jobs.context

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": lambda params: describe(self._find(params)),
            "ListTrainingJobs": lambda params: list_jobs(self._jobs.store, params),
            "StopTrainingJob": self._stop,
            "UpdateTrainingJob": self._update,
            "DeleteTrainingJob": self._delete,
        }

    def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"TrainingJobArn": make_arn(self._jobs.create(params).name)}

    def _stop(self, params: dict[str, Any]) -> dict[str, Any]:
        self._jobs.stop(self._find(params), "training")
        return {}

    def _update(self, params: dict[str, Any]) -> dict[str, Any]:
        """Profiler and rules read their configuration again while they run."""
        found = self._find(params)
        changes = {key: params[key] for key in _UPDATABLE if key in params}
        is_available = found.warm is not None and found.warm.status == "Available"
        if not (is_available and changes.keys() == {"ResourceConfig"}):
            require_unfinished(found, "training")

        def update(record: JobRecord) -> JobRecord:
            updated = {**record.request, **_merge(record.request, changes)}
            read_request(updated)  # refused before it is kept: a job must not be ended by it
            changed = replace(record, request=updated, modified=time.time())
            return change_period(changed) if "ResourceConfig" in changes else changed

        # Before the change: the store is locked while it is made, and must not wait for S3.
        require_buckets(read_request(update(found).request), self._context.storage)
        record = self._jobs.store.change(found.name, update)
        self._jobs.supervisor.pools.look_again()
        if record.stage == "training" and _READ_AGAIN & changes.keys():
            self._write_config_files(record)
        return {"TrainingJobArn": make_arn(record.name)}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        try:
            record = self._jobs.store.read(params["TrainingJobName"])
        except UnknownJob as error:
            raise resource_not_found("Requested resource not found.") from error
        self._jobs.delete(record, "training")
        return {}

    def _write_config_files(self, record: JobRecord) -> None:
        request = read_request(record.request)
        network = self._context.engine.make_network(
            record.name, request.hosts, isolated=request.isolated
        )
        for host in request.hosts:
            folder = self._context.root.host_dir(record.name, host)
            write_config_files(request, host, folder, addresses=network.addresses)
            self._context.engine.adapt_config_files(folder)

    def _find(self, params: Mapping[str, Any]) -> JobRecord:
        return self._jobs.find(params["TrainingJobName"])


def _merge(request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is not named in a changed part of a request stays as it is."""
    return {
        key: {**request.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in changes.items()
    }
