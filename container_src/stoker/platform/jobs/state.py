"""What is known about one job.

queued → starting → downloading → training → uploading → cleaning → ended
             ↑                       ↓
             └───── interrupted ←────┘

A stage names what is done *next*. It is recorded before it is acted on, and acting on it twice
does no harm: that is how a job survives a kill -9 of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stoker.bus.rule_status import RuleStatus

Stage = Literal[
    "queued",
    "starting",
    "downloading",
    "training",
    "interrupted",
    "uploading",
    "cleaning",
    "ended",
]
Status = Literal["InProgress", "Stopping", "Completed", "Stopped", "Failed"]
Cause = Literal["", "asked", "max_runtime", "max_wait", "interrupted", "host_failed"]
"""Why an attempt had to end; empty if it had not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """One entry of SecondaryStatusTransitions."""

    status: str
    message: str
    start: float
    end: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostExit:
    """How the container of one host ended."""

    code: int
    oom_killed: bool = False
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One run of all hosts; a spot job may have several."""

    number: int

    began: float | None = None
    """When training began; None until then."""

    ended: float | None = None

    launched: bool = False
    """All containers were started: one that is missing from now on is lost, not late."""

    lines_before: Mapping[str, int] = field(default_factory=dict)
    """Host → lines in its log stream when the attempt began."""

    mounts: Mapping[str, list[list[Any]]] = field(default_factory=dict)
    """Host → [source, target, read_only, *layers] of every mount; set when the input is there."""

    cause: Cause = ""

    signalled: float | None = None
    """When the hosts got their signal; the grace time counts from here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How the job ends, known before the upload begins."""

    status: Status
    secondary: str
    message: str
    failure_reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One entry of FinalMetricDataList."""

    name: str
    value: float
    timestamp: float


PoolStatus = Literal["InUse", "Available", "Reused", "Terminated"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmPool:
    """What a job with KeepAlivePeriodInSeconds leaves for the next one."""

    status: PoolStatus

    since: float | None = None
    """When it became available; None if it never did."""

    until: float | None = None
    """When it ends unless a job takes it."""

    ended: float | None = None
    reused_by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """Everything the store keeps about a job."""

    name: str
    request: Mapping[str, Any]
    """CreateTrainingJob's or CreateProcessingJob's parameters, validated, without the tags."""

    created: float
    modified: float
    stage: Stage = "queued"
    status: Status = "InProgress"
    transitions: tuple[Transition, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    stop_asked: bool = False
    pause_asked: bool = False
    """The job waits in the stage `interrupted` until it is resumed; a tuning job asks for it."""

    tuning_job_arn: str = ""
    """Of the tuning job whose trial this is; empty for every other job."""

    notes: tuple[str, ...] = ()
    """Lines for the job's log: what was noticed when it was accepted."""

    exit_message: str = ""
    """What a processing job wrote to /opt/ml/output/message."""

    retries: int = 0
    """Attempts repeated after an internal error of the platform (RetryStrategy)."""

    verdict: Verdict | None = None
    training_ended: float | None = None
    model_uri: str = ""
    metrics: tuple[Metric, ...] = ()
    rules: tuple[RuleStatus, ...] = ()
    """Of those rules about which anything was said."""

    tags: Mapping[str, str] = field(default_factory=dict)

    warm: WarmPool | None = None
    """None for a job without KeepAlivePeriodInSeconds."""

    pool: str = ""
    """The pool in which the job runs, named after the job that began it; empty if in none."""

    claimed: str = ""
    """The job that left the pool to this one; empty if this one began it."""

    @property
    def secondary(self) -> str:
        """The newest secondary status."""
        return self.transitions[-1].status

    @property
    def attempt(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def training_started(self) -> float | None:
        """When the first attempt began to train."""
        return self.attempts[0].began if self.attempts else None
