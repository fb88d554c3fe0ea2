"""What the run store keeps: experiments, trials (groups of runs), runs, lineage entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

RunStatus = Literal["InProgress", "Completed", "Failed", "Stopping", "Stopped"]
Parameter = str | float
LineageKind = Literal["artifact", "action", "context"]


def show_parameter(value: Parameter) -> str:
    """A parameter as a text, which it is for MLflow and on the command line."""
    # JSON does not tell 3 from 3.0, so the store has a float where the script had an int.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What every kind has."""

    name: str
    """Unique among its kind, whatever the case of its letters."""

    created: float
    """Seconds since the epoch."""

    modified: float
    title: str = ""
    """The name to show; empty if it is the name."""

    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """How links name it."""
        return f"{type(self).__name__}/{self.name}".lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment(Record):
    """Trainings that belong together."""

    id: str = ""
    """A short number, as MLflow knows it."""

    is_deleted: bool = False
    """Only hidden, as MLflow deletes; the other clients remove the record."""

    artifact_uri: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial(Record):
    """A group of runs of one experiment."""

    experiment: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """Something a run has read or written."""

    uri: str
    media_type: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run(Record):
    """One training, or anything else whose parameters and results are kept."""

    id: str
    """32 hexadecimal digits, as MLflow knows it."""

    status: RunStatus | None = None
    message: str = ""
    started: float | None = None
    ended: float | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    inputs: Mapping[str, Artifact] = field(default_factory=dict)
    outputs: Mapping[str, Artifact] = field(default_factory=dict)
    source: str = ""
    """The ARN of the job that is this run; empty for a run that a client made."""

    source_type: str = ""
    lineage: Mapping[str, Any] = field(default_factory=dict)
    """What it was made from: `inputs` (URI, hash), `image`, `source_code`, `search`, `resumed`."""

    is_deleted: bool = False
    """Hidden, as MLflow deletes."""

    datasets: Sequence[Mapping[str, Any]] = ()
    """What MLflow's `log_input` says of the data: `dataset` and `tags` of each."""

    models: Sequence[Mapping[str, Any]] = ()
    """The logged models it has made: `model_id` and `step` of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedModel(Record):
    """A model as MLflow 3 logs it; its name is its id, its files are in S3."""

    experiment: str
    """The id of its experiment."""

    run: str
    """The id of the run that logged it; empty if none did."""

    status: str
    type: str = ""
    artifact_uri: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[Mapping[str, Any]] = ()
    """The latest value of each metric, run and data set, as MLflow's clients sent it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredModel(Record):
    """A name of MLflow's model registry."""

    newest: int = 0
    """The number of the version that was made last."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    """Alias → number of a version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVersion(Record):
    """A version of a registered model; its name is `MODEL/NUMBER`."""

    model: str
    version: str
    source: str
    artifact_uri: str
    """Where its files are; the source may be the address of a logged model."""

    run: str = ""
    stage: str = "None"


@dataclass(frozen=True, kw_only=True, slots=True)
class LineageEntity(Record):
    """An artifact, action or context of the lineage; its name is its ARN."""

    kind: LineageKind
    type: str
    source: Mapping[str, Any]
    """`SourceUri`, and what identifies its content."""

    status: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """Its ARN, by which associations name it."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An edge between two nodes: records, or ARNs of anything else."""

    source: str
    target: str
    kind: str
    """`member`: a run of a trial. Else the type of a lineage association."""

    created: float
