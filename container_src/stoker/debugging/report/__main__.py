"""The page as a process: `python -m stoker.debugging.report --outcome TEXT`.

The launcher runs it at the end of a job with rules: it takes NumPy, which the launcher has not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from stoker.bus.rule_status import read_rule_statuses
from stoker.contract.debugger import findings_file, report_file, tensors_dir
from stoker.contract.files import write_atomically
from stoker.contract.job import Job, read_job
from stoker.debugging.evaluate.findings_file import read_findings
from stoker.debugging.report.curves import read_curves
from stoker.debugging.report.page import Report, render_report
from stoker.debugging.tensors import SavedTensors


def main(argv: Sequence[str] | None = None) -> int:
    """Writes report.html next to the findings, and says so."""
    parser = argparse.ArgumentParser(prog="stoker.debugging.report")
    parser.add_argument("--outcome", default="", help="how the job ended")
    arguments = parser.parse_args(argv)
    job = read_job()
    file = report_file(job.paths)
    try:
        write_atomically(file, render_report(read_report(job, arguments.outcome)))
    except OSError as error:
        print(f"[stoker] warning: {file} cannot be written: {error.strerror}", flush=True)
        return 0
    print(f"[stoker] report: {file}", flush=True)
    return 0


def read_report(job: Job, outcome: str) -> Report:
    """What the files of a job tell of its rules."""
    saved = SavedTensors(tensors_dir(job.paths, job.services.debug_hook))
    findings = tuple(read_findings(findings_file(job.paths)))
    return Report(
        title=job.name or "A run and its rules",
        outcome=outcome,
        rules=tuple(read_rule_statuses(job.paths)),
        findings=findings,
        curves=tuple(read_curves(saved, required_steps=[fired.step for fired in findings])),
        saved_steps=len(saved.steps()),
    )


if __name__ == "__main__":
    sys.exit(main())
