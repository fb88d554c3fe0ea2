"""What is known about one tuning job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["InProgress", "Stopping", "Completed", "Stopped", "Failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRecord:
    """One trial, recorded before its training job is created."""

    number: int
    """From 1."""

    job: str
    """The name of the training job."""

    definition: int
    """Which of the training job definitions, from 0."""

    parameters: Mapping[str, str]
    decided: int = 0
    """How many values of the objective Hyperband has decided on."""

    note: str = ""
    """For its log, once its hosts have ended: until then all lines of the log are theirs."""

    refusal: str = ""
    """Why there is no training job; empty if there is one, or will be."""

    is_created: bool = False
    """There is or was a training job: one that is missing from now on was deleted."""

    status: str = ""
    """How the training job ended; the trial is known from here when the job was deleted."""

    objective: float | None = None
    """The final objective, recorded with the status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParentTrial:
    """An ended trial of a parent (warm start)."""

    parent: str
    """The name of the parent tuning job."""

    number: int
    job: str
    parameters: Mapping[str, str]
    objective: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningRecord:
    """Everything the store keeps about a tuning job."""

    name: str
    request: Mapping[str, Any]
    """CreateHyperParameterTuningJob's parameters, validated, without the tags."""

    created: float
    modified: float
    status: Status = "InProgress"
    trials: tuple[TrialRecord, ...] = ()
    earlier: tuple[ParentTrial, ...] = ()
    stop_asked: bool = False
    finishing: str = ""
    """Why no further trial is started; those that run are stopped."""

    converged: float | None = None
    """When convergence was detected."""

    failure_reason: str = ""
    ended: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.status in ("Completed", "Stopped", "Failed")
