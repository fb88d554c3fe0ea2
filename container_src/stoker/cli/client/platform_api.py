"""The platform's API: the calls that Stoker's own commands need."""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self

from stoker.bus.progress import Progress, show_nothing
from stoker.cli.client.connection import Connection, Refusal
from stoker.cli.client.server import require_server
from stoker.cli.client.source import ARCHIVE_NAME, pack_source
from stoker.cli.client.submission import Submission
from stoker.cloud.log_line import LOG_GROUP as LOG_GROUP
from stoker.cloud.log_line import LogLine as LogLine
from stoker.cloud.log_line import make_log_line
from stoker.errors import HostError
from stoker.machine.aws import import_module
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import (
    DEFAULT_BUCKET,
    REGION,
    SPARE_BYTES,
    Credentials,
    Root,
    read_credentials,
)

_MOST_NAMES = 1000  # enough to find what a misspelt name meant
_TAIL_LINES = 1000
_REFUSALS = ("ValidationException", "ResourceInUse", "ResourceNotFound", "ResourceLimitExceeded")


class Api:
    """The calls that Stoker's own commands need."""

    log_group = LOG_GROUP

    def __init__(self, endpoint: str, credentials: Credentials, s3_folder: Path) -> None:
        self._connection = Connection(endpoint, credentials)
        self._endpoint = endpoint
        self._credentials = credentials
        self._s3_folder = s3_folder

    @classmethod
    def over(cls, other: Api) -> Self:
        """The same platform, for another kind of jobs."""
        return cls(other._endpoint, other._credentials, other._s3_folder)

    def send_code(
        self, submission: Submission, *, show: Callable[[str], object] = show_nothing
    ) -> None:
        """Send the code of a job that is to be created, unless it is there.

        Args:
            submission: what to send.
            show: gets a line from time to time that says how far it has come.
        """
        # The key has the digest of the code: what is there under it is the same code.
        if not self._connection.has_object(DEFAULT_BUCKET, submission.source_key):
            import tempfile  # only here: every start of the command would pay for it

            with tempfile.TemporaryDirectory() as folder:
                archive = Path(folder) / ARCHIVE_NAME
                pack_source(submission.source, archive, show=show)
                progress = Progress("upload of the code", archive.stat().st_size, show=show)
                self._send(archive, submission.source_key, progress)

    def create(self, request: Mapping[str, Any]) -> None:
        """CreateTrainingJob, with code and data that are there.

        Raises:
            UsageRefused: the platform, as the service would, does not accept it.
        """
        self.call("sagemaker", "CreateTrainingJob", **request)

    def read_request(self, job: str) -> dict[str, Any]:
        """What a job was created with: CreateTrainingJob's members of its description."""
        description = self.describe(job)
        session = import_module("botocore.session").Session()
        model = session.get_service_model("sagemaker")
        known = model.operation_model("CreateTrainingJob").input_shape.members
        request = {name: value for name, value in description.items() if name in known}
        # Of InstancePreferences, the answer has which one was taken; a request must not.
        resources = {k: v for k, v in request["ResourceConfig"].items() if "Selected" not in k}
        request["ResourceConfig"] = resources
        answer = self.call("sagemaker", "ListTags", ResourceArn=description["TrainingJobArn"])
        return {**request, **({"Tags": answer["Tags"]} if answer.get("Tags") else {})}

    def describe(self, job: str) -> dict[str, Any]:
        """DescribeTrainingJob.

        Raises:
            UsageRefused: there is no such job; names the nearest.
        """
        try:
            return self.call("sagemaker", "DescribeTrainingJob", TrainingJobName=job)
        except UsageRefused as error:
            raise self._unknown_job(job) from error

    def stop(self, job: str) -> None:
        """StopTrainingJob.

        Raises:
            UsageRefused: there is no such job, or it has ended.
        """
        status = self.describe(job)["TrainingJobStatus"]
        try:
            self.call("sagemaker", "StopTrainingJob", TrainingJobName=job)
        except UsageRefused as error:
            raise UsageRefused(
                f"{job} cannot be stopped: it is {status}", fix="nothing: it has ended"
            ) from error

    def list_jobs(self) -> Iterator[dict[str, Any]]:
        """All jobs, the newest first."""
        order = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": 100}
        for page in self.pages("sagemaker", "ListTrainingJobs", **order):
            yield from page["TrainingJobSummaries"]

    def read_log(self, job: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        """What the hosts have said since the last call; a log may be larger than the memory.

        Args:
            job: The job's name.
            tokens: Stream → where to continue; kept up to date here, empty at first.
        """
        streams = [self._read_stream(stream, tokens) for stream in self._stream_names(job)]
        # Merged, not sorted: each stream is in order, and only a page of each is held.
        return heapq.merge(*streams, key=lambda line: line.time_ms)

    def read_tail(self, job: str) -> list[LogLine]:
        """The last lines of all hosts."""
        lines: list[LogLine] = []
        for stream in self._stream_names(job):
            place = {"logGroupName": self.log_group, "logStreamName": stream, "limit": _TAIL_LINES}
            page = self.call("logs", "GetLogEvents", **place)
            lines += [make_log_line(stream, event) for event in page["events"]]
        return sorted(lines, key=lambda line: line.time_ms)

    def list_objects(self, uri: str) -> Iterator[tuple[str, str, int, datetime]]:
        """Bucket, key, size and time of all objects below a prefix; none without the bucket."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        try:
            for page in pages:
                for found in page.get("Contents", []):
                    yield bucket, found["Key"], found["Size"], found["LastModified"]
        except self._s3.exceptions.NoSuchBucket:
            return

    def delete_objects(self, keys: Iterable[str]) -> None:
        """Remove objects that are named `bucket/key`."""
        for name in keys:
            bucket, _, key = name.partition("/")
            self._s3.delete_object(Bucket=bucket, Key=key)

    def delete_job(self, job: str) -> None:
        """DeleteTrainingJob: its record and its log."""
        self.call("sagemaker", "DeleteTrainingJob", TrainingJobName=job)

    @cached_property
    def _s3(self) -> Any:  # noqa: ANN401 - boto3 has no types
        session = make_boto3_session(self._credentials)
        # Without it botocore would ask a proxy of the environment for 127.0.0.1.
        config = import_module("botocore.config").Config(proxies={})
        return session.client("s3", endpoint_url=self._endpoint, config=config)

    def _unknown_job(self, job: str) -> UsageRefused:
        names = [each["TrainingJobName"] for each in islice(self.list_jobs(), _MOST_NAMES)]
        import difflib

        near = difflib.get_close_matches(job, names, n=3, cutoff=0.5)
        fix = "stoker status lists the jobs" if names else "submit one: stoker train SCRIPT"
        return UsageRefused(
            f"the platform has no job {job}",
            fix=f"did you mean {' or '.join(near)}?" if near else fix,
        )

    def _stream_names(self, job: str) -> list[str]:
        place = {"logGroupName": self.log_group, "logStreamNamePrefix": f"{job}/"}
        try:
            pages = list(self._connection.pages("logs", "DescribeLogStreams", place))
        except Refusal as refusal:
            if refusal.code != "ResourceNotFoundException":
                raise _translate(refusal) from refusal
            return []  # no job has written anything yet
        return [stream["logStreamName"] for page in pages for stream in page["logStreams"]]

    def _read_stream(self, stream: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        place = {"logGroupName": self.log_group, "logStreamName": stream, "startFromHead": True}
        while True:
            token = {"nextToken": tokens[stream]} if stream in tokens else {}
            page = self.call("logs", "GetLogEvents", **place, **token)
            for event in page["events"]:
                yield make_log_line(stream, event)
            # As in CloudWatch Logs: at the end of a stream the answer has the token that it was
            # asked with.
            is_end = tokens.get(stream) == page["nextForwardToken"] or not page["events"]
            tokens[stream] = page["nextForwardToken"]
            if is_end:
                return

    def _send(self, file: Path, key: str, progress: Progress) -> None:
        try:
            self._connection.put_object(DEFAULT_BUCKET, key, file, on_bytes=progress.add)
        except Refusal as refusal:
            raise self._explain_disk(file) or _translate(refusal) from refusal
        except HostError as error:
            if disk := self._explain_disk(file):
                raise disk from error
            raise

    def find_full_disk(self) -> str:
        """What keeps the platform from continuing, if its disk is full; else empty."""
        if shutil.disk_usage(self._s3_folder).free > SPARE_BYTES:
            return ""
        folder = self._s3_folder.parent
        return f"the disk of {folder} is full; free space on it, and the platform continues"

    def _explain_disk(self, file: Path) -> HostError | None:
        """A full disk, which S3 does not always name; None if it is not full."""
        free_bytes = shutil.disk_usage(self._s3_folder).free
        size_bytes = file.stat().st_size
        if free_bytes > size_bytes + SPARE_BYTES:
            return None
        return HostError(
            f"{file} cannot be sent: the disk of {self._s3_folder} is full: it has "
            f"{free_bytes:,} bytes free, the file has {size_bytes:,}",
            fix="free space on that disk (`stoker local prune --keep 3` removes older jobs), or "
            "use a folder on another one: --root DIR",
        )

    def read_curve(self, job: str, metric: str) -> list[float]:
        """Every value of a metric that a job has reported."""
        return [value for _, value in self._read_points(job, metric)]

    def read_metrics(self, job: str) -> dict[str, list[tuple[float, float]]]:
        """Every metric of a job: its name, Unix times and values."""
        where = {"Namespace": LOG_GROUP, "Dimensions": [_dimension(job)]}
        pages = self.pages("monitoring", "ListMetrics", **where)
        names = [each["MetricName"] for page in pages for each in page["Metrics"]]
        return {name: self._read_points(job, name) for name in names}

    def _read_points(self, job: str, metric: str) -> list[tuple[float, float]]:
        query = {
            "Namespace": LOG_GROUP,
            "MetricName": metric,
            "Dimensions": [_dimension(job)],
            "StartTime": 0,
            # Seconds since the epoch, in 2106: all that there is.
            "EndTime": 2**32,
            "Period": 60,
            "Statistics": ["Average"],
        }
        answer = self.call("monitoring", "GetMetricStatistics", **query)
        points = answer["Datapoints"]
        return [(point["Timestamp"], point["Average"]) for point in points]

    def call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        """One operation of a service.

        Raises:
            UsageRefused: the platform, as the service would, does not accept it.
        """
        try:
            return self._connection.call(service, operation, parameters)
        except Refusal as refusal:
            raise _translate(refusal) from refusal

    def pages(self, service: str, operation: str, **parameters: object) -> Iterator[Any]:
        """All pages of a list."""
        try:
            yield from self._connection.pages(service, operation, parameters)
        except Refusal as refusal:
            raise _translate(refusal) from refusal


def _dimension(job: str) -> dict[str, str]:
    return {"Name": "TrainingJobName", "Value": job}


def open_api(root: Root) -> Api:
    """The API of the server that runs on a root.

    Raises:
        HostError: none runs.
    """
    return Api(require_server(root).endpoint, read_credentials(root), root.s3_dir)


def make_boto3_session(credentials: Credentials) -> Any:  # noqa: ANN401 - boto3 has no types
    """A boto3 session with the platform's keys and region, whatever the environment holds."""
    # An own botocore session, told not to look at AWS_PROFILE: a missing profile is an error.
    core = import_module("botocore.session").Session(
        session_vars={"profile": (None, [], None, None)}
    )
    return import_module("boto3").Session(
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        region_name=REGION,
        botocore_session=core,
    )


def _translate(refusal: Refusal) -> HostError:
    """What the platform answered, as one of our own errors."""
    code, message = refusal.code, refusal.message
    if code == "InsufficientStorage":
        text, _, fix = message.rpartition("; ")
        return HostError(text, fix=fix)
    if code not in _REFUSALS:
        return HostError(f"the platform failed: {code}: {message}", fix="see its server.log")
    text, has_fix, fix = message.rpartition("; fix: ")
    if has_fix:  # the platform's own, which knows best
        return UsageRefused(text, fix=fix)
    fixes = {
        "ResourceInUse": "choose another --name",
        "ResourceNotFound": "check the name: `stoker tune` printed it",
        "ResourceLimitExceeded": "wait for a job to end",
    }
    return UsageRefused(message, fix=fixes.get(code, "see the request: stoker train --dry-run"))
