"""The calls of the API that concern training jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stoker.host.platform.around.config_files import write_config_files
from stoker.host.platform.faults import (
    limit_exceeded,
    resource_in_use,
    unknown_operation,
    validation,
)
from stoker.host.platform.jobs.changes import new_job
from stoker.host.platform.jobs.describe import describe, make_arn
from stoker.host.platform.jobs.listing import list_jobs
from stoker.host.platform.jobs.lives import Lives
from stoker.host.platform.jobs.refusals import require_startable
from stoker.host.platform.jobs.state import JobRecord
from stoker.host.platform.jobs.store import NameTaken, Store, UnknownJob
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.jobs.tags import add_tags, delete_tags, list_tags, read_tags
from stoker.host.platform.logs.operations import LogOperations
from stoker.host.platform.request import read_request

_MOST_JOBS = 200
"""Under way or waiting; each is a thread, and a client that floods must not end the server."""

_UPDATABLE = (
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "ResourceConfig",
    "RemoteDebugConfig",
)


def make_operations(around: Surroundings) -> JobOperations:
    """Open the store of a root; `start` then goes on with the jobs found there."""
    return JobOperations(around)


class JobOperations:
    """Answers `sagemaker` and `logs`; safe to call from several threads."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._store = Store(around.root.database)
        self._lives = Lives(around, self._store)
        self._logs = LogOperations(around.streams)
        self._sagemaker: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": lambda params: describe(self._find(params)),
            "ListTrainingJobs": lambda params: list_jobs(self._store.all(), params),
            "StopTrainingJob": self._stop,
            "UpdateTrainingJob": self._update,
            "AddTags": lambda params: add_tags(self._store, params),
            "ListTags": lambda params: list_tags(self._store, params),
            "DeleteTags": lambda params: delete_tags(self._store, params),
        }

    def start(self) -> None:
        """Adopt what an earlier server left; call it before the API is open."""
        self._lives.adopt()

    def close(self) -> None:
        """Let go of all jobs; what runs goes on."""
        self._lives.close()
        self._around.engine.close()
        self._store.close()

    def call(self, service: str, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer one operation; see `wire.operations`."""
        if service == "logs":
            return self._logs.call(operation, params)
        answer = self._sagemaker.get(operation) if service == "sagemaker" else None
        if answer is None:
            known = ", ".join(sorted(self._sagemaker))
            raise unknown_operation(
                f"{operation} is not emulated by this platform; it has: {known}"
            )
        return answer(params)

    def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        request = read_request(params)
        self._require_free(request.name)
        if self._lives.count() >= _MOST_JOBS:
            raise limit_exceeded(
                f"{_MOST_JOBS} training jobs are under way or waiting, which is the most this "
                "platform takes; wait until some have ended, or stop them"
            )
        require_startable(request, self._around)
        kept = {key: value for key, value in params.items() if key != "Tags"}
        record = new_job(request.name, kept, read_tags(request.tags), time.time())
        try:
            self._store.add(record)
        except NameTaken:
            self._require_free(request.name)
        self._lives.begin(record)
        return {"TrainingJobArn": make_arn(request.name)}

    def _require_free(self, name: str) -> None:
        try:
            self._store.read(name)
        except UnknownJob:
            return
        raise resource_in_use(
            f"Training job names must be unique within an AWS account and region, and a training "
            f"job with this name already exists ({make_arn(name)})"
        )

    def _stop(self, params: dict[str, Any]) -> dict[str, Any]:
        record = self._find(params)
        self._require_unfinished(record)
        self._lives.stop(record.name)
        return {}

    def _update(self, params: dict[str, Any]) -> dict[str, Any]:
        """The profiler reads its configuration again while it runs; the rest is only shown."""
        self._require_unfinished(self._find(params))
        changes = {key: params[key] for key in _UPDATABLE if key in params}

        def update(record: JobRecord) -> JobRecord:
            merged = {
                key: {**record.request.get(key, {}), **value} if isinstance(value, dict) else value
                for key, value in changes.items()
            }
            return replace(record, request={**record.request, **merged}, modified=time.time())

        record = self._store.change(params["TrainingJobName"], update)
        if record.stage == "training" and "ProfilerConfig" in changes:
            self._write_config_files(record)
        return {"TrainingJobArn": make_arn(record.name)}

    def _write_config_files(self, record: JobRecord) -> None:
        request = read_request(record.request)
        network = self._around.engine.make_network(
            record.name, request.hosts, isolated=request.isolated
        )
        for host in request.hosts:
            folder = self._around.root.host_dir(record.name, host)
            write_config_files(request, host, folder, addresses=network.addresses)

    def _require_unfinished(self, record: JobRecord) -> None:
        if record.stage == "ended":
            raise validation(
                f"The request was rejected because the training job is in status {record.status}."
            )

    def _find(self, params: Mapping[str, Any]) -> JobRecord:
        try:
            return self._store.read(params["TrainingJobName"])
        except UnknownJob as error:
            raise validation("Requested resource not found.") from error
