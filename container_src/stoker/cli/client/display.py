"""A job on the terminal: its log as it is, changes of status, and the end with what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stoker.cli.client.sagemaker import LogLine
from stoker.cli.client.watch import Ended, Event, Progress, Transition
from stoker.machine.terminal import Terminal, make_duration
from stoker.platform.data.rule_output import report_uri
from stoker.platform.model.root import Root

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
            case Progress():
                terminal.status(render_progress(event))
            case Ended():
                terminal.status("")
                return event.description
    raise RuntimeError("a watch ended without its last event")


def render_line(line: LogLine, *, hosts: int) -> str:
    """With one host the line as it was printed, else behind the host's name."""
    return line.text if hosts == 1 else f"{line.host} | {line.text}"


def render_progress(progress: Progress) -> str:
    """The line at the bottom."""
    metrics = "  ".join(f"{name} {value:g}" for name, value in progress.metrics.items())
    return f"» {progress.status}, {make_duration(progress.seconds)}  {metrics}".rstrip()


def render_summary(description: Mapping[str, Any], root: Root) -> list[str]:
    """How the job ended and where its things are."""
    rows = [("job", description["TrainingJobName"]), ("status", _status(description))]
    if reason := description.get("FailureReason"):
        rows.append(("reason", reason))
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
    indent = "\n" + " " * 10
    return [f"  {name:<7} {text}".replace("\n", indent) for name, text in rows]


def file_of(uri: str, root: Root) -> Path | None:
    """The object as a file of this machine; None if there is none."""
    file = root.s3_dir / uri.removeprefix("s3://")
    return file if uri.startswith("s3://") and file.is_file() else None


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
    text = f"{make_duration(training)} of training"
    if description.get("EnableManagedSpotTraining") and billable is not None and training:
        saved = 100 * (1 - billable / training)
        text += f", {make_duration(billable)} billable (spot saves {saved:.0f} %)"
    return text
