"""What CreateTrainingJob refuses because of what is, or is not, on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.host.failures import ImageMissing
from stoker.host.platform.around.failures import DownloadFailed
from stoker.host.platform.around.s3_uri import parse_uri
from stoker.host.platform.around.storage import Storage
from stoker.host.platform.engines.engine import Engine
from stoker.host.platform.faults import validation
from stoker.host.platform.jobs.folders import list_kept_folders
from stoker.host.platform.jobs.spot import SpotInvalid, read_schedule
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.request import ChannelSource, TrainingRequest


def require_startable(request: TrainingRequest, around: Surroundings) -> None:
    """Refuse what could only fail later.

    Raises:
        ApiFault: everything that is missing, at once.
    """
    missing = [
        *_image(request, around.engine),
        *(text for channel in request.channels for text in _channel(channel, around.storage)),
        *_buckets(request, around.storage),
        *_schedule(request, around),
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
        *(kept.uri for kept in list_kept_folders(request)),
        *(rule.output_uri for rule in request.debug_rules),
    ]
    for bucket in dict.fromkeys(parse_uri(uri).bucket for uri in uris):
        try:
            next(iter(storage.list(f"s3://{bucket}/")), None)
        except DownloadFailed:
            yield f"The S3 bucket {bucket} does not exist; fix: aws s3 mb s3://{bucket}"


def _schedule(request: TrainingRequest, around: Surroundings) -> Iterator[str]:
    if not request.spot:
        return
    try:
        read_schedule(request.environment, around.environment, instances=len(request.hosts))
    except SpotInvalid as error:
        yield f"{error.message}; fix: {error.fix}"
