"""A job as DescribeTrainingJob describes it, with what it keeps in S3.

As a process it makes the page and the JSON files of a job of the local platform, whose server
does not load NumPy: `python -m stoker.report.described_job --s3 DIR --output DIR < job.json`

{"description": {…}, "metrics": {"loss": [[1763300000.5, 0.25], …]}, "region": "us-east-1"}
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.bus.rule_status import RuleStatus
from stoker.contract.files import write_atomically
from stoker.debugging.evaluate.findings_file import read_findings
from stoker.debugging.evaluate.profile_watch import REPORTS, write_reports
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.report.curves import Curve, read_curves
from stoker.debugging.specs import RuleSpec, read_specs
from stoker.debugging.tensors import SavedTensors
from stoker.report.figures.run import (
    PROFILER_REPORT,
    Run,
    Stage,
    evaluate_rules,
    find_traces,
    read_profile,
)
from stoker.report.page import render_report

Locate = Callable[[str], Path | None]
"""An address in S3 → the folder that has its objects; None if they are not on this machine."""


def main(argv: Sequence[str] | None = None) -> int:
    """Writes profiler-report.html and the JSON files into the folder."""
    parser = argparse.ArgumentParser(prog="stoker.report.described_job")
    parser.add_argument("--s3", type=Path, required=True, help="folder with a folder per bucket")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    asked = json.load(sys.stdin)
    description = asked["description"]
    job = description["TrainingJobName"]

    def locate(uri: str) -> Path:
        return Path(arguments.s3, uri.removeprefix("s3://"))

    place = f"{description['ProfilerConfig']['S3OutputPath'].rstrip('/')}/{job}/profiler-output"
    run = read_described_job(
        description,
        locate(place),
        locate=locate,
        metrics=asked["metrics"],
        region=asked["region"],
    )
    write_reports(arguments.output / REPORTS[1], run.rules.reports())
    write_atomically(str(arguments.output / "profiler-report.html"), render_report(run))
    return 0


def read_described_job(
    description: Mapping[str, Any],
    profile_folder: Path,
    *,
    locate: Locate,
    metrics: Mapping[str, Sequence[tuple[float, float]]],
    region: str,
    instances: Mapping[str, int] | None = None,
) -> Run:
    """Everything that is known of a job.

    Args:
        description: what DescribeTrainingJob answers.
        profile_folder: the files of its profile, of all hosts.
        locate: finds what else it keeps in S3.
        metrics: name → Unix times and values.
        region: for the prices.
        instances: instance type → how many, if they are not to be those of the job.
    """
    job = description["TrainingJobName"]
    profile, remarks = read_profile(profile_folder)
    specs = _read_rules(description)
    settings = next((s.parameters for s in specs if s.rule == PROFILER_REPORT), {})
    rules, is_quick = evaluate_rules(profile, settings, remarks)
    findings = _read_findings(description, locate)
    traces = _find_output(description, "TensorBoardOutputConfig", "tensorboard", locate)
    types = _count_instances(description)
    return Run(
        title=job,
        outcome=_say_outcome(description),
        profile=profile,
        rules=rules,
        is_quick=is_quick,
        stages=_read_stages(description),
        instances=instances or types,
        region=region,
        statuses=_read_statuses(description),
        findings=findings,
        curves=_read_curves(description, findings, locate),
        metrics=metrics,
        traces=find_traces(profile_folder, *([traces] if traces else [])),
        hosts=[f"algo-{number}" for number in range(1, sum(types.values()) + 1)],
        remarks=remarks,
    )


def _read_rules(description: Mapping[str, Any]) -> list[RuleSpec]:
    return read_specs(json.dumps(description.get("ProfilerRuleConfigurations") or []))


def _count_instances(description: Mapping[str, Any]) -> dict[str, int]:
    resources = description["ResourceConfig"]
    counts: dict[str, int] = {}
    for group in resources.get("InstanceGroups") or [resources]:
        kind = group["InstanceType"]
        counts[kind] = counts.get(kind, 0) + group["InstanceCount"]
    return counts


def _say_outcome(description: Mapping[str, Any]) -> str:
    reason = description.get("FailureReason", "")
    return f"{description['TrainingJobStatus']}{f': {reason}' if reason else ''}"


def _read_stages(description: Mapping[str, Any]) -> list[Stage]:
    return [
        Stage(name=each["Status"], start=_unix(each["StartTime"]), end=_unix(each["EndTime"]))
        for each in description.get("SecondaryStatusTransitions", ())
        if "EndTime" in each
    ]


def _unix(moment: Any) -> float:  # noqa: ANN401 - boto3 has datetimes, the platform itself numbers
    return float(moment.timestamp() if hasattr(moment, "timestamp") else moment)


def _read_statuses(description: Mapping[str, Any]) -> list[RuleStatus]:
    return [
        RuleStatus(
            name=each["RuleConfigurationName"],
            rule=each["RuleConfigurationName"],
            status=each["RuleEvaluationStatus"],
            details=each.get("StatusDetails", "").strip(),
        )
        for each in description.get("DebugRuleEvaluationStatuses", ())
    ]


def _read_findings(description: Mapping[str, Any], locate: Locate) -> list[Fired]:
    output = description["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    folder = locate(f"{output}/{description['TrainingJobName']}/rule-output")
    files = sorted(folder.glob("*/findings*.jsonl")) if folder else []
    return [fired for file in files for fired in read_findings(str(file))]


def _read_curves(
    description: Mapping[str, Any], findings: Sequence[Fired], locate: Locate
) -> list[Curve]:
    """The losses that the debugger's hook has saved."""
    folder = _find_output(description, "DebugHookConfig", "debug", locate)
    if folder is None or not folder.is_dir():
        return []
    saved = SavedTensors(str(folder))
    return read_curves(saved, required_steps=[fired.step for fired in findings])


def _find_output(
    description: Mapping[str, Any], config: str, name: str, locate: Locate
) -> Path | None:
    uri = description.get(config, {}).get("S3OutputPath")
    if not uri:
        return None
    return locate(f"{uri.rstrip('/')}/{description['TrainingJobName']}/{name}-output")


if __name__ == "__main__":
    sys.exit(main())
