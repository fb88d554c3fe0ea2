"""How the hosts ended becomes how the job ends."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import StokerError
from stoker.host.failures import ImageMissing
from stoker.host.platform.around.failures import DownloadFailed, UploadFailed, make_disk_fix
from stoker.host.platform.engines.engine import EngineFailed
from stoker.host.platform.jobs.state import Cause, HostExit, JobRecord, Verdict

_KILLED, _TERMINATED = 137, 143
_OUT_OF_MEMORY = (
    "the container ran out of memory and was killed (OOMKilled); "
    "fix: a smaller batch, fewer DataLoader workers, or more memory for the engine"
)
_THE_USERS_MATTER = (DownloadFailed, UploadFailed, ImageMissing, EngineFailed)


def make_verdict(
    record: JobRecord, exits: Mapping[str, HostExit], failure_texts: Mapping[str, str]
) -> Verdict:
    """Decide how a job ends whose last attempt is over.

    Args:
        record: the job; what it was told (a stop, a limit) comes first.
        exits: host → how it ended.
        failure_texts: host → what it wrote to /opt/ml/output/failure.
    """
    if record.stop_asked:
        return stopped("asked")
    if record.attempt.cause in ("max_runtime", "max_wait"):
        return stopped(record.attempt.cause)
    if all(exit_.code == 0 for exit_ in exits.values()):
        return completed()
    host = _culprit(exits, failure_texts)
    return failed(_algorithm_error(exits[host], failure_texts.get(host, "")))


def make_fault(error: Exception) -> Verdict:
    """A job that failed outside its containers: whose matter it is, what happened, the fix."""
    blame = "ClientError" if isinstance(error, _THE_USERS_MATTER) else "InternalServerError"
    if isinstance(error, OSError):
        place = error.filename or "the platform's folder"
        return failed(f"{blame}: {error}; fix: {make_disk_fix(error, place)}")
    if not isinstance(error, StokerError):
        return failed(f"{blame}: {type(error).__name__}: {error}")
    return failed(f"{blame}: {error.message}" + (f"; fix: {error.fix}" if error.fix else ""))


def is_our_fault(verdict: Verdict) -> bool:
    """Only then RetryStrategy applies."""
    return verdict.failure_reason.startswith("InternalServerError")


def completed() -> Verdict:
    """Every host left with 0."""
    return Verdict(status="Completed", secondary="Completed", message="Training job completed")


def stopped(cause: Cause) -> Verdict:
    """The job was told to end and did."""
    secondary, message = {
        "max_runtime": ("MaxRuntimeExceeded", "Training job runtime exceeded MaxRuntimeInSeconds"),
        "max_wait": ("MaxWaitTimeExceeded", "Training job exceeded MaxWaitTimeInSeconds"),
    }.get(cause, ("Stopped", "Training job stopped"))
    return Verdict(status="Stopped", secondary=secondary, message=message)


def failed(reason: str) -> Verdict:
    """The job failed."""
    return Verdict(
        status="Failed",
        secondary="Failed",
        message="Training job failed",
        failure_reason=reason,
    )


def _culprit(exits: Mapping[str, HostExit], texts: Mapping[str, str]) -> str:
    """The host that failed first: the others were ended by us and show it."""

    def rank(host: str) -> tuple[bool, bool, bool, str]:
        ended_by_us = exits[host].code in (_KILLED, _TERMINATED)
        return (not exits[host].oom_killed, ended_by_us, not texts.get(host), host)

    return min((host for host in exits if exits[host].code != 0), key=rank)


def _algorithm_error(exit_: HostExit, text: str) -> str:
    code = f", exit code: {exit_.code}"
    if exit_.oom_killed:
        text = f"{_OUT_OF_MEMORY}{'; ' if text else ''}{text}"
    room = 1024 - len("AlgorithmError: ") - len(code)
    return f"AlgorithmError: {(text or exit_.error)[:room]}{code}"
