"""What a job of any kind tells about itself, for its run.

A further kind of job is a `JobSource`: a function that yields the `JobFacts` of what changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stoker.tracking.records import Artifact, Parameter, RunStatus

_LONGEST_NAME = 120  # the service's limit of a name

JobKind = Literal["training", "processing", "tuning"]
SOURCE_TYPES: Mapping[JobKind, str] = {
    "training": "SageMakerTrainingJob",
    "processing": "SageMakerProcessingJob",
    "tuning": "SageMakerHyperParameterTuningJob",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFacts:
    """One job, as it is now."""

    kind: JobKind
    name: str
    arn: str
    created: float
    modified: float
    """Changes whenever anything else here does."""

    status: RunStatus
    is_over: bool
    message: str = ""
    started: float | None = None
    ended: float | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    inputs: Mapping[str, Artifact] = field(default_factory=dict)
    outputs: Mapping[str, Artifact] = field(default_factory=dict)
    """Each is in the lineage as what the run has produced."""

    experiment_config: Mapping[str, str] = field(default_factory=dict)
    """As in the request; a value may be missing."""

    title: str = ""
    """The name to show; empty if it is the run's."""

    tags: Mapping[str, str] = field(default_factory=dict)
    search: str = ""
    """The tuning job it is a trial of."""

    read_lineage: Callable[[], Mapping[str, Any]] = dict
    """`inputs` (name → `hash_objects`), `image`, `source_code`, …; called once, at its start."""

    read_end: Callable[[], Mapping[str, Any]] = dict
    """What of the lineage is known at its end only; called once."""

    @property
    def run_name(self) -> str:
        """As the service names the trial component."""
        return f"{self.name}-aws-{self.kind}-job"

    @property
    def key(self) -> str:
        """Unique among all kinds."""
        return self.name if self.kind == "training" else f"{self.kind}/{self.name}"


JobSource = Callable[[float], Iterable[JobFacts]]
"""The jobs that changed at or after a time, in seconds since the epoch; in any order."""


def make_trial_name(experiment: str) -> str:
    """The trial of jobs that name only an experiment, as in SDK v2."""
    name = f"Default-Run-Group-{experiment}"
    if len(name) <= _LONGEST_NAME:
        return name
    # MLflow's experiments may have longer names, which must not share a trial.
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}-{digest}"
