"""`stoker doctor`: look at this machine before a job does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from stoker.cli.client.root_folder import root_folder
from stoker.cli.doctor.examination import examine
from stoker.cli.doctor.finding import Finding, Machine
from stoker.machine.environment import read_environment
from stoker.machine.terminal import make_table

_MARKS = {"ok": "ok", "warning": "!", "problem": "✗"}


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 if one of them is a problem."""
    machine = Machine(environ=read_environment(), root=root_folder(args), image=args.image)
    findings = examine(machine)
    if args.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=1))
    else:
        print(*_render(findings), sep="\n")
    return int(any(finding.level == "problem" for finding in findings))


def _render(findings: Sequence[Finding]) -> list[str]:
    rows = [[_MARKS[finding.level], finding.check, finding.text] for finding in findings]
    lines = []
    for finding, line in zip(findings, make_table(rows), strict=True):
        lines.append(line)
        lines += [f"      fix: {finding.fix}"] if finding.fix else []
    count = {level: sum(f.level == level for f in findings) for level in ("problem", "warning")}
    return [*lines, "", f"{count['problem']} problems, {count['warning']} warnings"]
