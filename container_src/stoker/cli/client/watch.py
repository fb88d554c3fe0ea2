"""Follow a job to its end: its log, its metrics, its status, as events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from stoker.bus.metric_line import read_line
from stoker.cli.client.platform_api import LogLine

_LEAST_STEP_SECONDS, _MOST_STEP_SECONDS = 0.05, 0.4
_STEP_OF_ELAPSED = 0.05
_FINAL = ("Completed", "Failed", "Stopped")
_TRANSFERS = ("Downloading", "Uploading")


class Watched(Protocol):
    """What watching asks of the API."""

    def describe(self, job: str) -> dict[str, Any]:
        """DescribeTrainingJob."""

    def read_log(self, job: str, tokens: dict[str, str]) -> Iterable[LogLine]:
        """The lines since the last call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """The job's secondary status changed."""

    status: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentStatus:
    """Where the job is now."""

    status: str
    seconds: float
    """Since it was created."""

    transfer: str = ""
    """How far the platform's copying of input or artifacts has come; empty if it says nothing."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """The newest value of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The last event."""

    description: Mapping[str, Any]


Event = LogLine | Transition | CurrentStatus | Ended


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
    began = time.monotonic()
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
        yield CurrentStatus(
            status=description["SecondaryStatus"],
            seconds=age_seconds(description),
            transfer=read_transfer(description),
            metrics=dict(metrics),
        )
        # Quick at first: the user waits for the first line; a long job needs no such haste.
        step = (time.monotonic() - began) * _STEP_OF_ELAPSED
        wait(min(max(step, _LEAST_STEP_SECONDS), _MOST_STEP_SECONDS))


def is_final(description: Mapping[str, Any]) -> bool:
    """Whether the job has ended."""
    return description["TrainingJobStatus"] in _FINAL


def read_metrics(description: Mapping[str, Any], line: str) -> dict[str, float]:
    """The values that the job's metric definitions find in a line, and those of `job.log`."""
    found = read_line(line)
    definitions = description.get("AlgorithmSpecification", {}).get("MetricDefinitions", [])
    for definition in definitions:
        with suppress(re.error, IndexError, TypeError, ValueError):  # no regex, group or number
            if match := re.search(definition["Regex"], line):
                found[definition["Name"]] = float(match[1])
    return found


def read_transfer(description: Mapping[str, Any]) -> str:
    """How far the platform's copying of input or artifacts has come; empty if it says nothing."""
    transitions = description.get("SecondaryStatusTransitions") or [{}]
    message = str(transitions[-1].get("StatusMessage", ""))
    return message.partition(": ")[2] if description["SecondaryStatus"] in _TRANSFERS else ""


def age_seconds(description: Mapping[str, Any]) -> float:
    """How long ago the job was created; how long it took, if it has ended."""
    last = (description.get("SecondaryStatusTransitions") or [{}])[-1]
    now = datetime.now(UTC)
    ended = last.get("EndTime", now) if is_final(description) else now
    return float((ended - description["CreationTime"]).total_seconds())
