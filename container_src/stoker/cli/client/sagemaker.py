"""The platform's API through boto3, as any client of the service would use it."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.cli.client.server import require_server
from stoker.cli.client.submission import ARCHIVE_NAME, Submission, Upload, list_files, pack_source
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import (
    DEFAULT_BUCKET,
    REGION,
    Credentials,
    Root,
    ServerInfo,
    read_credentials,
)

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
_REFUSALS = ("ValidationException", "ResourceInUse", "ResourceNotFound", "ResourceLimitExceeded")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line of a host's log."""

    host: str
    time_ms: int
    text: str


class Api:
    """The calls that Stoker's own commands need."""

    def __init__(self, server: ServerInfo, credentials: Credentials) -> None:
        self._endpoint = server.endpoint
        self._session = make_boto3_session(credentials)
        self._clients: dict[str, Any] = {}

    def submit(self, submission: Submission) -> None:
        """Send the files, then the one request.

        Raises:
            UsageRefused: the platform, as the service would, does not accept it.
        """
        self._require_new_name(str(submission.request["TrainingJobName"]))
        for upload in submission.uploads:
            self._send_folder(upload)
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / ARCHIVE_NAME
            pack_source(submission.source_dir, archive)
            self._send(archive, submission.source_key)
        self._call("sagemaker", "create_training_job", **submission.request)

    def describe(self, job: str) -> dict[str, Any]:
        """DescribeTrainingJob.

        Raises:
            UsageRefused: there is no such job.
        """
        return self._call("sagemaker", "describe_training_job", TrainingJobName=job)

    def stop(self, job: str) -> None:
        """StopTrainingJob.

        Raises:
            UsageRefused: there is no such job, or it has ended.
        """
        self._call("sagemaker", "stop_training_job", TrainingJobName=job)

    def list_jobs(self) -> Iterator[dict[str, Any]]:
        """All jobs, the newest first."""
        order = {"SortBy": "CreationTime", "SortOrder": "Descending"}
        for page in self._pages("sagemaker", "list_training_jobs", **order):
            yield from page["TrainingJobSummaries"]

    def read_log(self, job: str, tokens: dict[str, str]) -> list[LogLine]:
        """What the hosts have said since the last call.

        Args:
            job: The job's name.
            tokens: Stream → where to go on; kept up to date here, empty at first.
        """
        lines: list[LogLine] = []
        for stream in self._stream_names(job):
            host = stream.rpartition("/")[2].rpartition("-")[0]
            lines += self._read_stream(stream, host, tokens)
        return sorted(lines, key=lambda line: line.time_ms)

    def _client(self, service: str) -> Any:  # noqa: ANN401 - boto3 has no types
        # Made when first used: reading the model of a service takes a while.
        if service not in self._clients:
            self._clients[service] = self._session.client(
                service,
                endpoint_url=self._endpoint,
                config=_import("botocore.config").Config(
                    response_checksum_validation="when_required",
                    retries={"mode": "standard", "max_attempts": 5},
                    proxies={},
                ),
            )
        return self._clients[service]

    def _require_new_name(self, job: str) -> None:
        # Before anything is sent: the code of a job that runs must not be replaced.
        try:
            self.describe(job)
        except UsageRefused:
            return
        raise UsageRefused(f"there is a job {job} already", fix="choose another --name")

    def _stream_names(self, job: str) -> list[str]:
        place = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{job}/"}
        try:
            pages = list(self._pages("logs", "describe_log_streams", **place))
        except self._client("logs").exceptions.ResourceNotFoundException:
            return []  # no job has written anything yet
        return [stream["logStreamName"] for page in pages for stream in page["logStreams"]]

    def _read_stream(self, stream: str, host: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        place = {"logGroupName": LOG_GROUP, "logStreamName": stream, "startFromHead": True}
        while True:
            token = {"nextToken": tokens[stream]} if stream in tokens else {}
            page = self._call("logs", "get_log_events", **place, **token)
            for event in page["events"]:
                yield LogLine(host=host, time_ms=event["timestamp"], text=event["message"])
            is_end = tokens.get(stream) == page["nextForwardToken"] or not page["events"]
            tokens[stream] = page["nextForwardToken"]
            if is_end:
                return

    def _send_folder(self, upload: Upload) -> None:
        place = {"Bucket": DEFAULT_BUCKET, "Prefix": upload.prefix}
        there = {
            entry["Key"]: entry["Size"]
            for page in self._pages("s3", "list_objects_v2", **place)
            for entry in page.get("Contents", [])
        }
        for file in list_files(upload.folder):
            key = f"{upload.prefix}{file.relative_to(upload.folder)}"
            if there.get(key) != file.stat().st_size:
                self._send(file, key)

    def _send(self, file: Path, key: str) -> None:
        with _translated_errors():
            self._client("s3").upload_file(str(file), DEFAULT_BUCKET, key)

    def _call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        with _translated_errors():
            return dict(getattr(self._client(service), operation)(**parameters))

    def _pages(self, service: str, operation: str, **parameters: object) -> Iterator[Any]:
        with _translated_errors():
            yield from self._client(service).get_paginator(operation).paginate(**parameters)


def open_api(root: Root) -> Api:
    """The API of the server that runs on a root.

    Raises:
        HostError: none runs.
    """
    return Api(require_server(root), read_credentials(root))


def make_boto3_session(credentials: Credentials) -> Any:  # noqa: ANN401 - boto3 has no types
    """A boto3 session with the platform's keys and region, whatever the environment holds."""
    # An own botocore session, told not to look at AWS_PROFILE: a missing profile is an error.
    core = _import("botocore.session").Session(session_vars={"profile": (None, [], None, None)})
    return _import("boto3").Session(
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        region_name=REGION,
        botocore_session=core,
    )


@contextmanager
def _translated_errors() -> Iterator[None]:
    """What boto3 raises, in the words of our own errors."""
    exceptions = _import("botocore.exceptions")
    transfers = _import("boto3.exceptions")
    try:
        yield
    except exceptions.ParamValidationError as error:
        raise UsageRefused(str(error), fix="see the request: --dry-run prints it") from error
    except exceptions.ClientError as error:
        refusal = _refusal(error.response.get("Error", {}))
        if refusal is None:
            raise
        raise refusal from error
    except (exceptions.BotoCoreError, transfers.Boto3Error) as error:
        raise HostError(
            f"the platform does not answer: {error}",
            fix="see `stoker local status`; `stoker local up --detach` starts it again",
        ) from error


def _refusal(error: Mapping[str, str]) -> HostError | None:
    code, message = error.get("Code", "Unknown"), error.get("Message", "")
    if code == "ResourceNotFoundException":
        return None  # the logs' word for "nothing yet": for the caller
    if code not in _REFUSALS:
        return HostError(f"the platform failed: {code}: {message}", fix="see its server.log")
    fix = {
        "ResourceInUse": "choose another --name",
        "ResourceLimitExceeded": "wait for a job to end",
    }.get(code, "`stoker status` lists the jobs; `stoker train --dry-run` prints the request")
    return UsageRefused(message, fix=fix)


def _import(name: str) -> Any:  # noqa: ANN401 - as above
    # boto3 is an extra: building and checking images works without it.
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageRefused("boto3 is not installed", fix="pip install 'stoker[host]'") from error
