"""The AWS calls of metrics: event files on S3, and the metrics of a trial component."""

from __future__ import annotations

import logging
import math
import os
from functools import cache

import boto3
from botocore.config import Config

from stoker.metrics.backlog import Backlog
from stoker.storage.aws import AWS_ERRORS
from stoker.storage.s3 import split_uri

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.contract.job import Job

Point = tuple[float, int, "Mapping[str, float]"]
"""Wall time, step, metrics."""

# Called from threads that a stop waits for: what does not answer is given up soon.
_CONFIG = Config(connect_timeout=5, read_timeout=20, retries={"max_attempts": 2})
# The limits of BatchPutMetrics: entries of a call, characters of a name, bits of a step.
_MOST_METRICS = 10
_LONGEST_NAME = 255  # the service's limit
_STEPS = range(1 << 31)
_LOG = logging.getLogger("stoker.metrics")


def put_object(uri: str, content: bytes) -> None:
    """Writes one object.

    Raises:
        OSError: S3 refuses, or cannot be reached.
    """
    bucket, key = split_uri(uri)
    try:
        client = _client("s3", None, os.getpid())
        client.put_object(Bucket=bucket, Key=key, Body=content)
    except AWS_ERRORS as error:
        raise OSError(str(error)) from None


class TrialMetrics:
    """Sends metrics to the job's trial component, if it has one; a failure is reported once."""

    def __init__(self, job: Job) -> None:
        self._arn, self._region = job.arn, job.region or None
        self._trial_component: str | None = None
        self._is_off = False
        # Never waits for room: what the service does not take in time is dropped.
        self._backlog = Backlog(self._send, name="SageMaker's metrics", patience_seconds=0)
        self.add = self._backlog.add
        self.flush = self._backlog.flush
        self.forget = self._backlog.forget

    def _send(self, points: list[Point], _urgent: bool) -> bool:
        entries = [entry for point in points for entry in make_metric_data(*point)]
        try:
            for first in range(0, len(entries), _MOST_METRICS):
                if not self._is_off:
                    self._put(entries[first : first + _MOST_METRICS])
        except AWS_ERRORS as error:
            self._is_off = True
            _LOG.warning(
                "metrics are not sent to SageMaker Experiments from now on: %s\n"
                "  fix: the job's role needs sagemaker:BatchPutMetrics",
                error,
            )
        return False

    def _put(self, entries: list[dict[str, object]]) -> None:
        name = self._trial_component or self._find_trial_component()
        if name is None:
            self._is_off = True
            return
        self._trial_component = name
        client = _client("sagemaker-metrics", self._region, os.getpid())
        answer = client.batch_put_metrics(TrialComponentName=name, MetricData=entries)
        if errors := answer.get("Errors"):
            raise ValueError(f"{name} refused {len(errors)} metrics: {errors[0].get('Code')}")

    def _find_trial_component(self) -> str | None:
        try:
            client = _client("sagemaker", self._region, os.getpid())
            found = client.list_trial_components(SourceArn=self._arn, MaxResults=1)
        except AWS_ERRORS as error:
            # Most jobs have none, and their roles need not be allowed to ask.
            _LOG.info("no trial component is known: %s", error)
            return None
        summaries = found.get("TrialComponentSummaries") or []
        return str(summaries[0]["TrialComponentName"]) if summaries else None


@cache
def _client(service: str, region: str | None, _pid: int) -> boto3.client:
    # One a process: connections do not survive a fork. A session is not shared between threads.
    return boto3.session.Session().client(service, region_name=region, config=_CONFIG)


def make_metric_data(
    wall_time: float, step: int, metrics: Mapping[str, float]
) -> list[dict[str, object]]:
    """The API's form of one log call; it knows no NaN, no infinity and 31 bits of a step."""
    return [
        {
            "MetricName": name[:_LONGEST_NAME],
            "Timestamp": wall_time,
            **({"Step": step} if step in _STEPS else {}),
            "Value": value,
        }
        for name, value in metrics.items()
        if name and math.isfinite(value)
    ]
