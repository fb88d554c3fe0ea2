"""Jobs that AWS Batch submits when it is their turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.cloud.account import Account
from stoker.cloud.jobs import CloudJobs, parse_job
from stoker.cloud.refusals import ConnectionLost, PermissionMissing
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused

_TYPE = "SAGEMAKER_TRAINING"
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


def require_queue(account: Account, queue: str) -> None:
    """
    Raises:
        UsageRefused: there is no such queue, or it does not take training jobs.
        HostError: AWS refuses or cannot be reached.
    """
    try:
        found = account.call("batch", "DescribeJobQueues", jobQueues=[queue])["jobQueues"]
    except PermissionMissing:
        return  # who may submit a job need not be allowed to look at the queue
    if not found:
        raise UsageRefused(
            f"AWS Batch in {account.region} has no job queue {queue}",
            fix=f"aws batch describe-job-queues --region {account.region} shows those that exist",
        )
    described = found[0]
    if described.get("jobQueueType", _TYPE) != _TYPE:
        raise UsageRefused(
            f"the job queue {queue} is of the type {described['jobQueueType']}, not {_TYPE}",
            fix=f"name a queue of the type {_TYPE}",
        )
    if described["state"] != "ENABLED":
        raise UsageRefused(
            f"the job queue {queue} is {described['state']}: it takes no jobs",
            fix=f"aws batch update-job-queue --job-queue {queue} --state ENABLED",
        )


def submit(account: Account, request: Mapping[str, Any]) -> tuple[str, bool]:
    """SubmitServiceJob; a repetition that reaches Batch twice is one job.

    Returns:
        The id of Batch's job, and whether the same one was in the queue already.

    Raises:
        HostError: the service does not accept it; translated.
    """
    try:
        return str(account.call("batch", "SubmitServiceJob", **request)["jobId"]), False
    except HostError as error:
        # Batch rejects a second request with the same clientToken: the answer to the first one
        # may have been lost.
        if found := _find_same(account, request):
            return found, True
        if isinstance(error, ConnectionLost):
            name = request["jobName"]
            raise ConnectionLost(
                f"{error.message} (whether {name} is in the queue is not known)",
                fix=f"{error.fix}; then the same command with --name {name}, which submits no"
                " second job",
            ) from error
        raise


def _find_same(account: Account, request: Mapping[str, Any]) -> str | None:
    """The id of a job in the queue that is what the request asked for."""
    named = [{"name": "JOB_NAME", "values": [request["jobName"]]}]
    try:
        jobs = account.call(
            "batch", "ListServiceJobs", jobQueue=request["jobQueue"], filters=named
        )["jobSummaryList"]
        for job in jobs:
            described = account.call("batch", "DescribeServiceJob", jobId=job["jobId"])
            payload = json.loads(described.get("serviceRequestPayload", "null"))
            is_same = payload == json.loads(request["serviceRequestPayload"])
            if is_same and described["status"] not in _OVER:
                return str(job["jobId"])
    except HostError:
        pass  # the first error is the one to tell
    return None


def read_queued_job(jobs: Account | CloudJobs, queue_job: str) -> QueuedJob:
    """DescribeServiceJob."""
    answer = jobs.call("batch", "DescribeServiceJob", jobId=queue_job)
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
