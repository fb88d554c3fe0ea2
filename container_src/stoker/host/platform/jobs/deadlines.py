"""When a job must end: MaxRuntime counts training, MaxWait everything since the job was made."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.host.platform.jobs.state import Attempt, Cause, JobRecord
from stoker.host.platform.request import TrainingRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Deadline:
    """A moment, and why the job is told to end then."""

    at: float
    cause: Cause


def next_deadline(record: JobRecord, request: TrainingRequest) -> Deadline | None:
    """The earlier of the two that apply now."""
    found = [d for d in (_runtime(record, request), _wait(record, request)) if d is not None]
    return min(found, key=lambda d: d.at, default=None)


def trained_seconds(attempts: tuple[Attempt, ...], now: float) -> float:
    """Training time of all attempts together."""
    return sum((a.ended or now) - a.began for a in attempts if a.began is not None)


def _runtime(record: JobRecord, request: TrainingRequest) -> Deadline | None:
    if record.stage != "training" or record.attempt.began is None:
        return None
    before = trained_seconds(record.attempts[:-1], record.attempt.began)
    left = request.max_runtime_seconds - before
    return Deadline(at=record.attempt.began + left, cause="max_runtime")


def _wait(record: JobRecord, request: TrainingRequest) -> Deadline | None:
    if request.max_wait_seconds is None:
        return None
    return Deadline(at=record.created + request.max_wait_seconds, cause="max_wait")
