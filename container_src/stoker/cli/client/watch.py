"""Follow a job to its end: its log, its metrics, its status, as events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from stoker.cli.client.sagemaker import LogLine

_STEP_SECONDS = 0.4
_FINAL = ("Completed", "Failed", "Stopped")


class Watched(Protocol):
    """What watching asks of the API."""

    def describe(self, job: str) -> dict[str, Any]:
        """DescribeTrainingJob."""

    def read_log(self, job: str, tokens: dict[str, str]) -> list[LogLine]:
        """The lines since the last call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """The job's secondary status changed."""

    status: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where the job stands now."""

    status: str
    seconds: float
    """Since it was created."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """The newest value of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The last event."""

    description: Mapping[str, Any]


Event = LogLine | Transition | Progress | Ended


def watch(
    api: Watched, job: str, *, wait: Callable[[float], object] = time.sleep
) -> Iterator[Event]:
    """Yield what happens until the job has ended and all of its log was seen.

    Args:
        api: The platform.
        job: The job's name.
        wait: Called between two looks, with seconds.
    """
    tokens: dict[str, str] = {}
    seen = 0
    metrics: dict[str, float] = {}
    while True:
        # Status before log: what a job wrote before its end is there when it has ended.
        description = api.describe(job)
        lines = api.read_log(job, tokens)
        transitions = description.get("SecondaryStatusTransitions", [])
        for transition in transitions[seen:]:
            yield Transition(
                status=transition["Status"], message=transition.get("StatusMessage", "")
            )
        seen = len(transitions)
        for line in lines:
            metrics |= read_metrics(description, line.text)
            yield line
        if is_final(description):
            yield Ended(description=description)
            return
        yield Progress(
            status=description["SecondaryStatus"],
            seconds=_age_seconds(description),
            metrics=dict(metrics),
        )
        wait(_STEP_SECONDS)


def is_final(description: Mapping[str, Any]) -> bool:
    """Whether the job has ended."""
    return description["TrainingJobStatus"] in _FINAL


def read_metrics(description: Mapping[str, Any], line: str) -> dict[str, float]:
    """The values that the job's own metric definitions find in a line."""
    found: dict[str, float] = {}
    definitions = description.get("AlgorithmSpecification", {}).get("MetricDefinitions", [])
    for definition in definitions:
        with suppress(re.error, IndexError, TypeError, ValueError):  # no regex, group or number
            if match := re.search(definition["Regex"], line):
                found[definition["Name"]] = float(match[1])
    return found


def _age_seconds(description: Mapping[str, Any]) -> float:
    created: datetime = description["CreationTime"]
    return (datetime.now(UTC) - created).total_seconds()
