"""A training job accepted: checked against what is there, recorded, begun."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stoker.machine.failures import ImageMissing
from stoker.platform.data.failures import DownloadFailed
from stoker.platform.data.storage import Storage, parse_uri
from stoker.platform.engines.engine import Engine
from stoker.platform.jobs.changes import new_job
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import make_arn
from stoker.platform.jobs.kept_folders import list_synced_folders
from stoker.platform.jobs.spot import SpotInvalid, read_schedule
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import NameTaken, Store, UnknownJob
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model.faults import limit_exceeded, resource_in_use, validation
from stoker.platform.model.processing_request import (
    PREFIX,
    ProcessingRequest,
    make_processing_arn,
    read_processing,
)
from stoker.platform.model.request import ChannelSource, TrainingRequest, read_request
from stoker.platform.model.root import Root

_MOST_JOBS = 200
"""Under way or waiting; each is a thread, and a client that floods must not end the server."""


def create_job(
    params: Mapping[str, Any],
    *,
    context: JobContext,
    store: Store,
    supervisor: JobSupervisor,
    tuning_job_arn: str = "",
    notes: tuple[str, ...] = (),
) -> JobRecord:
    """CreateTrainingJob, or CreateProcessingJob.

    Args:
        params: the request, which fits the service model.
        context: the platform's parts.
        store: where the job is recorded.
        supervisor: begins it.
        tuning_job_arn: of the tuning job whose trial this is.
        notes: lines for its log.

    Raises:
        ApiFault: the request is refused.
    """
    request = read_processing(params) if "ProcessingJobName" in params else read_request(params)
    _require_free(store, request.name)
    if supervisor.count() >= _MOST_JOBS:
        raise limit_exceeded(
            f"{_MOST_JOBS} jobs are under way or waiting, which is the most this "
            "platform takes; wait until some have ended, or stop them"
        )
    if not tuning_job_arn:  # a trial's definition was checked with its tuning job
        require_startable(request, context)
    kept = {key: value for key, value in params.items() if key != "Tags"}
    record = new_job(
        request.name,
        kept,
        read_tags(request.tags),
        time.time(),
        tuning_job_arn=tuning_job_arn,
        notes=notes,
    )
    try:
        store.add(record)
    # Another request was faster: it is refused in the service's words.
    except NameTaken:
        _require_free(store, request.name)
    supervisor.begin(record)
    return record


def read_tags(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """From the API's list of pairs."""
    return {tag["Key"]: tag["Value"] for tag in tags}


def _require_free(store: Store, name: str) -> None:
    try:
        store.read(name)
    except UnknownJob:
        return
    kind, arn = "training", make_arn(name)
    if name.startswith(PREFIX):
        kind, arn = "processing", make_processing_arn(name.removeprefix(PREFIX))
    raise resource_in_use(
        f"{kind.capitalize()} job names must be unique within an AWS account and region, and a "
        f"{kind} job with this name already exists ({arn})"
    )


def require_startable(request: TrainingRequest, context: JobContext) -> None:
    """Refuse what could only fail later.

    Raises:
        ApiFault: everything that is missing, at once.
    """
    missing = [
        *_image(request, context.engine),
        *(text for channel in request.channels for text in _channel(channel, context)),
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
        yield f"Cannot find the image {request.image}: {error.message}; fix: {error.fix}"


def _channel(channel: ChannelSource, context: JobContext) -> Iterator[str]:
    """In the service's own words, which people search for."""
    if not channel.uri:
        return
    if folder := channel.folder:
        yield from _folder(channel.name, folder.resolve(), context.root)
        return
    try:
        found = any(True for _ in context.storage.list(channel.uri))
    except DownloadFailed:
        found = False
    if not found:
        yield (
            f'No S3 objects found under S3 URL "{channel.uri}" given in input data source. '
            f"Please ensure that the bucket exists on this platform and that objects exist under "
            f"that S3 prefix: aws s3 ls {channel.uri}"
        )


def _folder(channel: str, folder: Path, root: Root) -> Iterator[str]:
    try:
        is_empty = not any(folder.iterdir())
    except OSError as error:
        yield f"Channel '{channel}': {folder} cannot be read: {error.strerror}; fix: name a folder"
        return
    if is_empty:
        yield f"Channel '{channel}': {folder} is empty; fix: put a file into it"
    if root.folder.is_relative_to(folder):
        yield (
            f"Channel '{channel}': {folder} holds the platform's own folder {root.folder}; "
            "fix: name a folder below it"
        )


def _buckets(request: TrainingRequest, storage: Storage) -> Iterator[str]:
    outputs = request.outputs if isinstance(request, ProcessingRequest) else ()
    uris = [
        *filter(None, [request.output_uri]),
        *(output.uri for output in outputs),
        *(kept.uri for kept in list_synced_folders(request)),
        *(rule.output_uri for rule in request.debug_rules),
    ]
    for bucket in dict.fromkeys(parse_uri(uri).bucket for uri in uris):
        try:
            # Of a bucket with many objects, a list of the first ones would take longer.
            next(iter(storage.list(f"s3://{bucket}/{request.name}/")), None)
        except DownloadFailed:
            yield f"The S3 bucket {bucket} does not exist; fix: aws s3 mb s3://{bucket}"


def _schedule(request: TrainingRequest, context: JobContext) -> Iterator[str]:
    if not request.spot:
        return
    try:
        read_schedule(request.environment, context.environment, instances=len(request.hosts))
    except SpotInvalid as error:
        yield f"{error.message}; fix: {error.fix}"
