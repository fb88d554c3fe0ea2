"""The operations of training jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stoker.platform.api.service import Operation
from stoker.platform.data.config_files import write_config_files
from stoker.platform.data.confined import remove_tree
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import describe, list_jobs, make_arn
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.jobs.submission import create_job, require_buckets
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.jobs.warm_pool_states import change_period
from stoker.platform.model.faults import (
    resource_in_use,
    resource_not_found,
    validation,
)
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

    def __init__(
        self,
        context: JobContext,
        store: Store,
        supervisor: JobSupervisor,
        *,
        make_notes: Callable[[Mapping[str, Any]], tuple[str, ...]],
    ) -> None:
        """Args: make_notes: lines for the log of a job, from its request."""
        self._context = context
        self._store = store
        self._supervisor = supervisor
        self._make_notes = make_notes

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": lambda params: describe(self._find(params)),
            "ListTrainingJobs": lambda params: list_jobs(self._store, params),
            "StopTrainingJob": self._stop,
            "UpdateTrainingJob": self._update,
            "DeleteTrainingJob": self._delete,
        }

    def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        record = create_job(
            params,
            context=self._context,
            store=self._store,
            supervisor=self._supervisor,
            notes=self._make_notes(params),
        )
        return {"TrainingJobArn": make_arn(record.name)}

    def _stop(self, params: dict[str, Any]) -> dict[str, Any]:
        record = self._find(params)
        self._require_unfinished(record)
        self._supervisor.stop(record.name)
        return {}

    def _update(self, params: dict[str, Any]) -> dict[str, Any]:
        """Profiler and rules read their configuration again while they run."""
        found = self._find(params)
        changes = {key: params[key] for key in _UPDATABLE if key in params}
        is_available = found.warm is not None and found.warm.status == "Available"
        if not (is_available and changes.keys() == {"ResourceConfig"}):
            self._require_unfinished(found)

        def update(record: JobRecord) -> JobRecord:
            updated = {**record.request, **_merge(record.request, changes)}
            read_request(updated)  # refused before it is kept: a job must not be ended by it
            changed = replace(record, request=updated, modified=time.time())
            return change_period(changed) if "ResourceConfig" in changes else changed

        # Before the change: the store is locked while it is made, and must not wait for S3.
        require_buckets(read_request(update(found).request), self._context.storage)
        record = self._store.change(found.name, update)
        self._supervisor.pools.look_again()
        if record.stage == "training" and _READ_AGAIN & changes.keys():
            self._write_config_files(record)
        return {"TrainingJobArn": make_arn(record.name)}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        """The record, the log and the metrics; what is in S3 stays, as in the service."""
        try:
            record = self._store.read(params["TrainingJobName"])
        except UnknownJob as error:
            raise resource_not_found("Requested resource not found.") from error
        if record.stage != "ended":
            raise resource_in_use(
                f"The training job {record.name} is {record.status} and cannot be deleted; "
                "fix: stop it and wait until it has ended"
            )
        self._context.streams.remove(record.name)
        self._context.series.remove(record.name)
        with suppress(FileNotFoundError):
            remove_tree(self._context.root.kept_dir(record.name))
        self._context.root.run_file(record.name).unlink(missing_ok=True)
        self._store.delete(record.name)
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

    def _require_unfinished(self, record: JobRecord) -> None:
        if record.stage == "ended":
            raise validation(
                f"The request was rejected because the training job is in status {record.status}."
            )

    def _find(self, params: Mapping[str, Any]) -> JobRecord:
        name: str = params["TrainingJobName"]
        try:
            return self._store.read(name)
        except UnknownJob as error:
            # `load_run()` in a job knows the name from the ARN, which is in lower case.
            if found := self._store.find_lower(name):
                return found
            raise validation("Requested resource not found.") from error


def _merge(request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is not named in a changed part of a request stays as it is."""
    return {
        key: {**request.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in changes.items()
    }
