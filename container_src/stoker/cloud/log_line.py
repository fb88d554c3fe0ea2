"""One line of a job's log, on this machine and in the cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOG_GROUP = "/aws/sagemaker/TrainingJobs"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line of a host's log."""

    host: str
    time_ms: int
    text: str


def make_log_line(stream: str, event: Mapping[str, Any]) -> LogLine:
    """From an event of GetLogEvents; the stream is JOB/algo-1-TIME."""
    host = stream.rpartition("/")[2].rpartition("-")[0]
    return LogLine(host=host, time_ms=event["timestamp"], text=event["message"])
