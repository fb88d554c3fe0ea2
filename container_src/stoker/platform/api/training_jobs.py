"""The operations of training jobs and their tags."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stoker.machine.failures import ImageMissing
from stoker.platform.api.logs import LogOperations
from stoker.platform.data.config_files import write_config_files
from stoker.platform.data.failures import DownloadFailed
from stoker.platform.data.storage import Storage, parse_uri
from stoker.platform.engines.engine import Engine
from stoker.platform.jobs.changes import new_job
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import describe, list_jobs, make_arn
from stoker.platform.jobs.hosts import list_synced_folders
from stoker.platform.jobs.spot import SpotInvalid, read_schedule
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import NameTaken, Store, UnknownJob
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model.faults import (
    limit_exceeded,
    resource_in_use,
    resource_not_found,
    unknown_operation,
    validation,
)
from stoker.platform.model.request import ChannelSource, TrainingRequest, read_request

_MOST_JOBS = 200
"""Under way or waiting; each is a thread, and a client that floods must not end the server."""

_UPDATABLE = (
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "ResourceConfig",
    "RemoteDebugConfig",
)


def make_operations(context: JobContext) -> JobOperations:
    """Open the store of a root; `start` then goes on with the jobs found there."""
    return JobOperations(context)


class JobOperations:
    """Answers `sagemaker` and `logs`; safe to call from several threads."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._store = Store(context.root.database)
        self._supervisor = JobSupervisor(context, self._store)
        self._logs = LogOperations(context.streams)
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
        self._supervisor.adopt()

    def close(self) -> None:
        """Let go of all jobs; what runs goes on."""
        self._supervisor.close()
        self._context.engine.close()
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
        if self._supervisor.count() >= _MOST_JOBS:
            raise limit_exceeded(
                f"{_MOST_JOBS} training jobs are under way or waiting, which is the most this "
                "platform takes; wait until some have ended, or stop them"
            )
        require_startable(request, self._context)
        kept = {key: value for key, value in params.items() if key != "Tags"}
        record = new_job(request.name, kept, read_tags(request.tags), time.time())
        try:
            self._store.add(record)
        except NameTaken:
            self._require_free(request.name)
        self._supervisor.begin(record)
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
        self._supervisor.stop(record.name)
        return {}

    def _update(self, params: dict[str, Any]) -> dict[str, Any]:
        """The profiler reads its configuration again while it runs; the rest is only shown."""
        found = self._find(params)
        self._require_unfinished(found)
        changes = {key: params[key] for key in _UPDATABLE if key in params}

        def update(record: JobRecord) -> JobRecord:
            updated = {**record.request, **_merge(record.request, changes)}
            read_request(updated)  # refused before it is kept: a job must not be ended by it
            return replace(record, request=updated, modified=time.time())

        require_buckets(read_request(update(found).request), self._context.storage)
        record = self._store.change(found.name, update)
        if record.stage == "training" and "ProfilerConfig" in changes:
            self._write_config_files(record)
        return {"TrainingJobArn": make_arn(record.name)}

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
        try:
            return self._store.read(params["TrainingJobName"])
        except UnknownJob as error:
            raise validation("Requested resource not found.") from error


def _merge(request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is not named in a changed part of a request stays as it is."""
    return {
        key: {**request.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in changes.items()
    }


def require_startable(request: TrainingRequest, context: JobContext) -> None:
    """Refuse what could only fail later.

    Raises:
        ApiFault: everything that is missing, at once.
    """
    missing = [
        *_image(request, context.engine),
        *(text for channel in request.channels for text in _channel(channel, context.storage)),
        *_buckets(request, context.storage),
        *_schedule(request, context),
    ]
    if missing:
        raise validation("; ".join(missing))


def require_buckets(request: TrainingRequest, storage: Storage) -> None:
    """Refuse places for results that are not there.

    Raises:
        ApiFault: which buckets are missing.
    """
    missing = list(_buckets(request, storage))
    if missing:
        raise validation("; ".join(missing))


def _image(request: TrainingRequest, engine: Engine) -> Iterator[str]:
    try:
        engine.require_image(request.image)
    except ImageMissing as error:
        yield f"Cannot find the training image {request.image}: {error.message}; fix: {error.fix}"


def _channel(channel: ChannelSource, storage: Storage) -> Iterator[str]:
    """In the service's own words, which people search for."""
    if not channel.uri:
        return
    try:
        found = any(True for _ in storage.list(channel.uri))
    except DownloadFailed:
        found = False
    if not found:
        yield (
            f'No S3 objects found under S3 URL "{channel.uri}" given in input data source. '
            f"Please ensure that the bucket exists on this platform and that objects exist under "
            f"that S3 prefix: aws s3 ls {channel.uri}"
        )


def _buckets(request: TrainingRequest, storage: Storage) -> Iterator[str]:
    uris = [
        request.output_uri,
        *(kept.uri for kept in list_synced_folders(request)),
        *(rule.output_uri for rule in request.debug_rules),
    ]
    for bucket in dict.fromkeys(parse_uri(uri).bucket for uri in uris):
        try:
            next(iter(storage.list(f"s3://{bucket}/")), None)
        except DownloadFailed:
            yield f"The S3 bucket {bucket} does not exist; fix: aws s3 mb s3://{bucket}"


def _schedule(request: TrainingRequest, context: JobContext) -> Iterator[str]:
    if not request.spot:
        return
    try:
        read_schedule(request.environment, context.environment, instances=len(request.hosts))
    except SpotInvalid as error:
        yield f"{error.message}; fix: {error.fix}"


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
