"""Jobs that AWS Batch submits when it is their turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.cloud.account import Account
from stoker.cloud.jobs import parse_job

_OVER = ("SUCCEEDED", "FAILED")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedJob:
    """Where a job of a queue is."""

    status: str
    """As Batch has it: SUBMITTED, PENDING, RUNNABLE, SCHEDULED, STARTING, RUNNING, …"""
    reason: str
    training_job: str | None
    """The name of the training job, as soon as there is one."""

    @property
    def is_over(self) -> bool:
        """Whether no training job will come any more."""
        return self.status in _OVER


def submit(account: Account, request: Mapping[str, Any]) -> str:
    """SubmitServiceJob; the same request twice is one job, by its clientToken.

    Returns:
        The id of Batch's job.
    """
    return str(account.call("batch", "SubmitServiceJob", **request)["jobId"])


def read_queued_job(account: Account, queue_job: str) -> QueuedJob:
    """DescribeServiceJob."""
    answer = account.call("batch", "DescribeServiceJob", jobId=queue_job)
    # Batch makes the training job when it is its turn, and another one for each retry.
    resource = answer.get("latestAttempt", {}).get("serviceResourceId", {}).get("value")
    return QueuedJob(
        status=answer["status"],
        reason=answer.get("statusReason", ""),
        training_job=parse_job(resource)[0] if resource else None,
    )


def terminate(account: Account, queue_job: str) -> None:
    """Take a job out of its queue, or stop it."""
    account.call("batch", "TerminateServiceJob", jobId=queue_job, reason="stoker stop")
