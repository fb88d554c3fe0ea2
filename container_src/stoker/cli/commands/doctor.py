"""`stoker doctor`: look at this machine before a job does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.submission import INSTANCE_TYPE
from stoker.cli.client.train_defaults import with_defaults
from stoker.cli.client.training_spec import DEFAULT_IMAGE
from stoker.cli.doctor.cloud_checks import CloudExamination, examine_cloud
from stoker.cli.doctor.examination import examine
from stoker.cli.doctor.finding import Finding, Machine
from stoker.cloud.account import Account
from stoker.cloud.sdk_config import read_sdk_config
from stoker.cloud.settings import CloudSettings, merge_sdk_config, require_names
from stoker.machine.environment import read_environment
from stoker.machine.terminal import make_table

_MARKS = {"ok": "ok", "warning": "!", "problem": "✗"}


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 if one of them is a problem."""
    findings = _examine_cloud(args) if args.on == "sagemaker" else _examine_machine(args)
    if args.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=1))
    else:
        print(*_render(findings), sep="\n")
    return int(any(finding.level == "problem" for finding in findings))


def _examine_machine(args: argparse.Namespace) -> list[Finding]:
    machine = Machine(
        environ=read_environment(), root=root_folder(args), image=args.image or DEFAULT_IMAGE
    )
    return examine(machine)


def _examine_cloud(args: argparse.Namespace) -> list[Finding]:
    args = with_defaults(args, Path.cwd())
    given = CloudSettings(
        region=args.region,
        role=args.role,
        output=args.output.rstrip("/") if args.output else None,
        subnets=tuple(args.subnet),
        is_spot=args.use_spot,
        repository=args.repository,
    )
    settings = merge_sdk_config(given, read_sdk_config(read_environment()))
    require_names(settings)
    return examine_cloud(
        CloudExamination(
            account=Account(region=settings.region),
            settings=settings,
            instance_type=args.instance_type or INSTANCE_TYPE,
            image=args.image or DEFAULT_IMAGE,
        )
    )


def _render(findings: Sequence[Finding]) -> list[str]:
    rows = [[_MARKS[finding.level], finding.check, finding.text] for finding in findings]
    lines = []
    for finding, line in zip(findings, make_table(rows), strict=True):
        lines.append(line)
        lines += [f"      fix: {finding.fix}"] if finding.fix else []
    count = {level: sum(f.level == level for f in findings) for level in ("problem", "warning")}
    return [*lines, "", f"{count['problem']} problems, {count['warning']} warnings"]
