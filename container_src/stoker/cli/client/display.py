"""A job on the terminal: its log as it is, changes of status, and the end with what to do next."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoker.cli.client.platform_api import LogLine
from stoker.cli.client.watch import (
    CurrentStatus,
    Ended,
    Event,
    Transition,
    age_seconds,
    read_metrics,
    read_transfer,
)
from stoker.machine.terminal import Terminal
from stoker.machine.units import show_elapsed, show_seconds
from stoker.platform.model.request import report_uri
from stoker.platform.model.root import Root

_LIMITS = {
    "MaxRuntimeExceeded": "MaxRuntimeInSeconds",
    "MaxWaitTimeExceeded": "MaxWaitTimeInSeconds",
}
_LONGEST_LINE = 200  # a line of a job may have megabytes
# At the end the summary says it.
_SUMMED_UP = ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")


def show(events: Iterable[Event], terminal: Terminal, *, hosts: int) -> Mapping[str, Any]:
    """Print events as they come.

    Returns:
        The description of the job at its end.
    """
    for event in events:
        match event:
            case LogLine():
                terminal.line(render_line(event, hosts=hosts))
            case Transition() if event.status not in _SUMMED_UP:
                terminal.line(f"» {event.status}: {event.message}".rstrip(": "))
            case CurrentStatus() if event.transfer:
                terminal.progress(render_status(event))
            case CurrentStatus():
                terminal.status(render_status(event))
            case Ended():
                terminal.status("")
                return event.description
    raise RuntimeError("a watch ended without its last event")


def render_line(line: LogLine, *, hosts: int) -> str:
    """With one host the line as it was printed, else behind the host's name."""
    return line.text if hosts == 1 else f"{line.host} | {line.text}"


def render_status(now: CurrentStatus) -> str:
    """The line at the bottom."""
    metrics = "  ".join(f"{name} {value:g}" for name, value in now.metrics.items())
    return f"» {now.status}, {show_elapsed(now.seconds)}  {now.transfer or metrics}".rstrip()


def render_summary(
    description: Mapping[str, Any], root: Root, *, is_log_shown: bool = False
) -> list[str]:
    """How the job ended and where its things are.

    Args:
        description: DescribeTrainingJob's answer.
        root: the platform's folder.
        is_log_shown: the log is above: the traceback in the reason would be there twice.
    """
    rows = [("job", description["TrainingJobName"]), ("status", _status(description))]
    if reason := description.get("FailureReason") or stop_reason(description):
        rows.append(("reason", without_traceback(reason) if is_log_shown else reason))
    if metrics := description.get("FinalMetricDataList"):
        text = ", ".join(f"{one['MetricName']} {one['Value']:g}" for one in metrics)
        rows.append(("metrics", text))
    if rules := description.get("DebugRuleEvaluationStatuses"):
        rows.append(("rules", "\n".join(_rule(one) for one in rules)))
    output_uri = description["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    if page := file_of(report_uri(output_uri, description["TrainingJobName"]), root):
        rows.append(("report", str(page)))
    if times := _times(description):
        rows.append(("time", times))
    uri = description["ModelArtifacts"]["S3ModelArtifacts"]
    if file := file_of(uri, root):
        rows += [("model", uri), ("", str(file))]
    elif description["TrainingJobStatus"] in ("Completed", "Stopped"):
        rows.append(("model", "the script left nothing in SM_MODEL_DIR"))
    return _lines(rows)


def render_running(description: Mapping[str, Any], tail: Sequence[LogLine]) -> list[str]:
    """Where a job is that has not ended.

    Args:
        description: DescribeTrainingJob's answer.
        tail: the last lines of its log.
    """
    phase = description["SecondaryStatusTransitions"][-1]
    since = (datetime.now(UTC) - phase["StartTime"]).total_seconds()
    message = read_transfer(description) or phase.get("StatusMessage", "")
    rows = [
        ("job", description["TrainingJobName"]),
        ("status", _status(description)),
        ("phase", f"{phase['Status']} for {show_elapsed(since)}: {message}".rstrip(": ")),
        ("time", f"{show_elapsed(age_seconds(description))} since it was submitted"),
    ]
    if metrics := last_metrics(description, tail):
        rows.append(("metrics", ", ".join(f"{name} {value:g}" for name, value in metrics.items())))
    if lines := [line for line in tail if line.text.strip()]:
        age = show_elapsed(max(0.0, time.time() - lines[-1].time_ms / 1000))
        # A job may print anything: control characters are for its own log.
        text = "".join(c for c in lines[-1].text.strip()[:_LONGEST_LINE] if c.isprintable())
        rows.append(("log", f"{text} ({age} ago)"))
    return _lines(rows)


def last_metrics(description: Mapping[str, Any], tail: Iterable[LogLine]) -> dict[str, float]:
    """The newest value of each metric in the last lines of a log."""
    metrics: dict[str, float] = {}
    for line in tail:
        metrics |= read_metrics(description, line.text)
    return metrics


def stop_reason(description: Mapping[str, Any]) -> str:
    """Why a job was stopped; empty if it was not."""
    if description["TrainingJobStatus"] not in ("Stopping", "Stopped"):
        return ""
    condition = description.get("StoppingCondition", {})
    for status, limit in _LIMITS.items():
        if description["SecondaryStatus"] == status:
            return f"it took longer than {limit}, {show_seconds(condition.get(limit, 0))}"
    messages = [
        each.get("StatusMessage", "")
        for each in description.get("SecondaryStatusTransitions", ())
        if each["Status"] == "Stopping"
    ]
    # The platform puts the rule that stopped a job in brackets behind its message.
    asked_by = re.search(r"\((.+)\)", messages[0]) if messages else None
    return asked_by[1] if asked_by else "StopTrainingJob was called (stoker stop, Ctrl-C, an SDK)"


def _lines(rows: Iterable[tuple[str, str]]) -> list[str]:
    indent = "\n" + " " * 10
    return [f"  {name:<7} {text}".replace("\n", indent) for name, text in rows]


def without_traceback(reason: str) -> str:
    """A failure reason without the lines of tracebacks; the error itself stays."""
    lines = reason.splitlines()
    kept = [
        line
        for line in lines
        if not line.startswith(("Traceback (most recent call last)", "  ", "During handling of"))
    ]
    return "\n".join(line for line in kept if line.strip()) if kept else reason


def file_of(uri: str, root: Root) -> Path | None:
    """The object as a file of this machine; None if there is none."""
    file = root.s3_dir / uri.removeprefix("s3://")
    return file if uri.startswith("s3://") and file.is_file() else None


def to_json(value: object) -> str:
    """An answer of the API, without what only its client needs."""
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name != "ResponseMetadata"}
    return json.dumps(value, indent=1, default=datetime.isoformat)


def _status(description: Mapping[str, Any]) -> str:
    primary, secondary = description["TrainingJobStatus"], description["SecondaryStatus"]
    return str(primary if primary == secondary else f"{primary} ({secondary})")


def _rule(status: Mapping[str, Any]) -> str:
    said = " ".join(status.get("StatusDetails", "").split())
    # The service's words for a rule that fired; only the step in them is news.
    step = re.search(r"^RuleEvaluationConditionMet: .* at step (\d+)", said)
    details = f" at step {step[1]}" if step else f" ({said})" if said else ""
    return f"{status['RuleConfigurationName']} {status['RuleEvaluationStatus']}{details}"


def _times(description: Mapping[str, Any]) -> str:
    training = description.get("TrainingTimeInSeconds")
    billable = description.get("BillableTimeInSeconds")
    if training is None:
        return ""
    text = f"{show_elapsed(training)} of training"
    if description.get("EnableManagedSpotTraining") and billable is not None and training:
        saved = 100 * (1 - billable / training)
        text += f", {show_elapsed(billable)} billable (spot saves {saved:.0f} %)"
    return text
