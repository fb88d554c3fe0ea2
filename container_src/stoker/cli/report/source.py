"""The run behind a name: a job of the local platform, a folder, or an address of S3."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stoker.bus.rule_status import RuleStatus
from stoker.cli.client.job_place import PROFILES, find_place
from stoker.cli.client.platform_api import open_api
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.target import find_cloud_target
from stoker.debugging.evaluate.findings_file import read_findings
from stoker.debugging.evaluate.watched import Fired
from stoker.errors import PreparationFailed
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import REGION, Root
from stoker.report.figures.run import (
    Run,
    Stage,
    evaluate_rules,
    find_profile,
    find_traces,
    read_profile,
)

_FIX = "stoker train SCRIPT --env STOKER_PROFILE=auto, or profiler_config= of the estimator"


@contextmanager
def open_run(args: argparse.Namespace, place: str) -> Iterator[Run]:
    """What is known of a run.

    Args:
        args: the options of the command.
        place: a job, a folder or an address.

    Raises:
        UsageRefused: there is no profile.
    """
    with ExitStack() as ending:
        folder = find_place(argparse.Namespace(**{**vars(args), "place": place}), PROFILES)
        is_job = folder != place
        if folder.startswith("s3://"):
            folder = _download(folder, Path(ending.enter_context(TemporaryDirectory())))
        found = find_profile(Path(folder))
        if found is None:
            raise UsageRefused(
                f"there is no profile in {place}: no folder system, stoker/steps or framework",
                fix=_FIX,
            )
        yield _make_run(args, place, found, is_job=is_job)


def _make_run(args: argparse.Namespace, place: str, folder: Path, *, is_job: bool) -> Run:
    profile, remarks = read_profile(folder)
    rules, is_quick = evaluate_rules(profile)
    facts = _read_job(args, place) if is_job else {}
    if args.instance_type:
        facts["instances"] = {args.instance_type: max(1, len(profile.nodes))}
    if args.region:
        facts["region"] = args.region
    title = place if is_job or place.startswith("s3://") else Path(place).resolve().name
    traces = find_traces(folder, *facts.pop("trace_folders", ()))
    return Run(
        title=title,
        profile=profile,
        rules=rules,
        is_quick=is_quick,
        traces=traces,
        remarks=remarks,
        **facts,
    )


def _read_job(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """What the platform knows of a job, and what else it has kept of it."""
    target = find_cloud_target(args, name)
    root = Root(root_folder(args))
    description = target.jobs.describe(target.name) if target else open_api(root).describe(name)
    resources = description["ResourceConfig"]
    groups = resources.get("InstanceGroups") or [resources]
    instances: dict[str, int] = {}
    for group in groups:
        kind = group["InstanceType"]
        instances[kind] = instances.get(kind, 0) + group["InstanceCount"]
    hosts = [f"algo-{n}" for n in range(1, sum(instances.values()) + 1)]
    return {
        "outcome": _say_outcome(description),
        "stages": _read_stages(description),
        "instances": instances,
        "region": target.jobs.account.region if target else REGION,
        "statuses": _read_statuses(description),
        "findings": [] if target else _read_findings(root, description),
        "hosts": hosts,
        "trace_folders": ()
        if target
        else _find_folders(root, description, "TensorBoardOutputConfig"),
    }


def _say_outcome(description: Mapping[str, Any]) -> str:
    reason = description.get("FailureReason", "")
    return f"{description['TrainingJobStatus']}{f': {reason}' if reason else ''}"


def _read_stages(description: Mapping[str, Any]) -> list[Stage]:
    return [
        Stage(
            name=each["Status"],
            start=each["StartTime"].timestamp(),
            end=each["EndTime"].timestamp(),
        )
        for each in description.get("SecondaryStatusTransitions", ())
        if "EndTime" in each
    ]


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


def _read_findings(root: Root, description: Mapping[str, Any]) -> list[Fired]:
    output = description["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    folder = _local(root, f"{output}/{description['TrainingJobName']}/rule-output")
    files = sorted(folder.glob("*/findings*.jsonl"))
    return [fired for file in files for fired in read_findings(str(file))]


def _find_folders(root: Root, description: Mapping[str, Any], config: str) -> Sequence[Path]:
    uri = description.get(config, {}).get("S3OutputPath")
    if not uri:
        return ()
    name = description["TrainingJobName"]
    return [_local(root, f"{uri.rstrip('/')}/{name}/tensorboard-output")]


def _local(root: Root, uri: str) -> Path:
    return root.s3_dir / uri.removeprefix("s3://")


def _download(uri: str, folder: Path) -> str:
    # boto3 takes a second to import.
    from stoker.storage.aws import download

    try:
        return str(download(uri, folder, fix="check the address and the permissions"))
    except PreparationFailed as error:
        raise UsageRefused(error.message, fix=error.fix) from error
