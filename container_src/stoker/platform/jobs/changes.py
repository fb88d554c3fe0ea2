"""How a job record changes: pure functions, including how the hosts' ends decide its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.errors import StokerError
from stoker.machine.failures import EngineLost, EngineSilent, ImageMissing
from stoker.platform.data.failures import DownloadFailed, UploadFailed, make_disk_fix
from stoker.platform.engines.engine import EngineFailed
from stoker.platform.jobs.rule_statuses import reopen, settle
from stoker.platform.jobs.state import (
    Attempt,
    Cause,
    HostExit,
    JobRecord,
    Stage,
    Transition,
    Verdict,
    WarmPool,
)

# The API's limit for FailureReason.
_REASON_CHARACTERS = 1024
_RETRIES_OF_TRIALS = 3
_RUNNING = ("Pending", "Starting", "Downloading", "Training", "Interrupted")


def new_job(
    name: str,
    request: Mapping[str, Any],
    tags: Mapping[str, str],
    now: float,
    *,
    tuning_job_arn: str = "",
    notes: tuple[str, ...] = (),
) -> JobRecord:
    """A job just accepted."""
    first = Transition(status="Starting", message="Starting the training job", start=now)
    return JobRecord(
        name=name,
        request=request,
        tags=tags,
        tuning_job_arn=tuning_job_arn,
        notes=notes,
        created=now,
        modified=now,
        transitions=(first,),
        warm=WarmPool(status="InUse") if keeps_warm(request) else None,
    )


def keeps_warm(request: Mapping[str, Any]) -> bool:
    """Whether a job is to leave a warm pool."""
    return bool(request.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds", 0))


def show(record: JobRecord, secondary: str, message: str, now: float) -> JobRecord:
    """A new secondary status; the same one again only changes its message.

    A job that is being stopped is not shown as running again.
    """
    if record.status == "Stopping" and secondary in _RUNNING:
        return replace(record, modified=now)
    *before, last = record.transitions
    if last.status == secondary:
        shown = (*before, replace(last, message=message))
    else:
        new = Transition(status=secondary, message=message, start=now)
        shown = (*before, replace(last, end=now), new)
    return replace(record, transitions=shown, modified=now)


def show_transfer(record: JobRecord, line: str, now: float) -> JobRecord:
    """How far the copying of this stage has come, behind the words of the stage."""
    status, message = record.secondary, record.transitions[-1].message
    if status not in ("Downloading", "Uploading"):
        return record  # it is being stopped, and its status says that
    return show(record, status, f"{message.partition(': ')[0]}: {line}", now)


def show_silence(record: JobRecord, silence: EngineSilent, now: float) -> JobRecord:
    """The job waits until its engine answers again."""
    if record.secondary == "Pending":
        return record
    message = f"Waiting for the engine: {silence.message}; fix: {silence.fix}"
    return show(record, "Pending", message, now)


def begin_attempt(record: JobRecord, now: float) -> JobRecord:
    """The next stage is `starting`, with a fresh attempt."""
    number = len(record.attempts) + 1
    shown = show(record, "Starting", "Preparing the instances for training", now)
    attempts = (*record.attempts, Attempt(number=number))
    return replace(reopen(shown, now), stage="starting", attempts=attempts)


def begin_download(record: JobRecord, now: float) -> JobRecord:
    """The next stage is `downloading`."""
    return replace(show(record, "Downloading", "Downloading input data", now), stage="downloading")


def begin_training(
    record: JobRecord,
    now: float,
    *,
    lines_before: Mapping[str, int],
    mounts: Mapping[str, list[list[Any]]],
    note: str = "",
) -> JobRecord:
    """The next stage is `training`: its clock runs from now on. Args: note: for the status."""
    message = f"Training image download completed. Training in progress. {note}".rstrip()
    shown = show(record, "Training", message, now)
    began = change_attempt(shown, now, began=now, lines_before=lines_before, mounts=mounts)
    return replace(began, stage="training")


def interrupt(record: JobRecord, now: float) -> JobRecord:
    """The attempt is over, and the job waits for capacity."""
    message = "Training job paused" if record.pause_asked else "Training job interrupted"
    shown = show(record, "Interrupted", message, now)
    return replace(reopen(shown, now), stage="interrupted")


def begin_upload(record: JobRecord, verdict: Verdict, now: float) -> JobRecord:
    """How the job ends is decided; what it has left is uploaded next."""
    shown = show(record, "Uploading", "Uploading generated training model", now)
    return conclude(shown, verdict, "uploading", now)


def change_attempt(record: JobRecord, now: float, **fields: Any) -> JobRecord:  # noqa: ANN401 - dataclasses.replace has no better type
    """Something about the newest attempt."""
    attempt = replace(record.attempt, **fields)
    return replace(record, attempts=(*record.attempts[:-1], attempt), modified=now)


def ask_to_stop(record: JobRecord, now: float, *, by: str = "") -> JobRecord:
    """StopTrainingJob was called, or a rule of the job asks for the same."""
    message = f"Stopping the training job ({by})" if by else "Stopping the training job"
    shown = show(record, "Stopping", message, now)
    return replace(shown, stop_asked=True, status="Stopping")


def ask_to_pause(record: JobRecord, now: float) -> JobRecord:
    """The running attempt is to end as by an interruption, and the job to wait for `resume`."""
    return replace(record, pause_asked=True, modified=now)


def resume(record: JobRecord, now: float) -> JobRecord:
    """A paused job waits for a place again; its next attempt begins from its checkpoints."""
    if record.stage != "interrupted" or not record.pause_asked:
        return record
    return replace(record, pause_asked=False, stage="queued", modified=now)


def conclude(record: JobRecord, verdict: Verdict, stage: Stage, now: float) -> JobRecord:
    """How the job ends is decided; what is left is `stage`."""
    ended = record.training_ended
    if verdict.status == "Failed" and ended is None and record.training_started is not None:
        ended = now  # the API: for a failure, the time when it was detected
    limited = replace(verdict, failure_reason=verdict.failure_reason[:_REASON_CHARACTERS])
    return replace(record, verdict=limited, stage=stage, training_ended=ended, modified=now)


def end(record: JobRecord, now: float) -> JobRecord:
    """Everything is done: the verdict becomes visible."""
    verdict = record.verdict or failed("InternalServerError: the job ended without a verdict")
    shown = show(record, verdict.secondary, verdict.message, now)
    closed = (*shown.transitions[:-1], replace(shown.transitions[-1], end=now))
    ended = replace(
        shown, stage="ended", status=verdict.status, transitions=closed, verdict=verdict
    )
    return settle(ended, now)


# 128 + SIGKILL and 128 + SIGTERM.
_KILLED, _TERMINATED = 137, 143
_OUT_OF_MEMORY = (
    "the container ran out of memory and was killed (OOMKilled); "
    "fix: a smaller batch, fewer DataLoader workers, or more memory for the engine"
)
# The service blames the client for these, and does not retry them.
_THE_USERS_MATTER = (DownloadFailed, UploadFailed, ImageMissing, EngineFailed)


def make_verdict(
    record: JobRecord, exits: Mapping[str, HostExit], failure_texts: Mapping[str, str]
) -> Verdict:
    """Decide how a job ends whose last attempt is over.

    Args:
        record: the job; a stop or a limit takes precedence.
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


def may_retry(record: JobRecord, error: Exception) -> bool:
    """Whether a job that failed outside its containers begins another attempt."""
    if record.stage not in ("starting", "downloading", "training"):
        return False
    allowed = record.request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)
    if isinstance(error, EngineLost) and record.tuning_job_arn:
        # What a search has tried must not depend on a restart of the engine.
        allowed = max(allowed, _RETRIES_OF_TRIALS)
    return is_our_fault(make_fault(error)) and record.retries < allowed


def completed() -> Verdict:
    """Every host left with 0."""
    return Verdict(status="Completed", secondary="Completed", message="Training job completed")


def stopped(cause: Cause) -> Verdict:
    """The job was asked to end and did."""
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
