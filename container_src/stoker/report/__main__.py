"""The page as a process: `python -m stoker.report --outcome TEXT`.

The launcher runs it at the end of a profiled job: it takes NumPy, which the launcher has not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from stoker.bus.rule_plan import read_rule_plan
from stoker.bus.rule_status import read_rule_statuses, write_rule_statuses
from stoker.contract.debugger import (
    findings_file,
    profiler_dir,
    profiler_report_file,
    rule_output_dir,
    tensors_dir,
)
from stoker.contract.files import write_atomically
from stoker.contract.job import Job, read_job
from stoker.debugging.evaluate.findings_file import read_findings
from stoker.debugging.evaluate.profile_watch import (
    REPORTS,
    read_requested_rules,
    write_reports,
)
from stoker.debugging.evaluate.watched import WatchedRule
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.report.curves import read_curves
from stoker.debugging.specs import RuleSpec, read_specs
from stoker.debugging.tensors import SavedTensors
from stoker.errors import RuleInvalid
from stoker.metrics.jsonl import metrics_file, parse_lines
from stoker.report.figures.run import (
    PROFILER_REPORT,
    Run,
    evaluate_rules,
    find_traces,
    read_profile,
)
from stoker.report.page import render_report


def main(argv: Sequence[str] | None = None) -> int:
    """Writes profiler-report.html and its JSON files, and says where."""
    parser = argparse.ArgumentParser(prog="stoker.report")
    parser.add_argument("--outcome", default="", help="how the job ended")
    arguments = parser.parse_args(argv)
    job = read_job()
    specs = _read_report_specs(job)
    run = read_run(job, arguments.outcome, specs[0].parameters if specs else {})
    page = render_report(run)
    evaluate_added_rules(job, run.profile)
    files = [profiler_report_file(job.paths)]
    # Where the service has the page of this rule: stock notebooks look for it there.
    for name in [spec.name for spec in specs] or [PROFILER_REPORT]:
        files.append(f"{rule_output_dir(job.paths)}/{name}/{REPORTS[0]}/profiler-report.html")
        folder = Path(rule_output_dir(job.paths), name, *REPORTS)
        if not folder.is_dir():  # nothing evaluated the rules while the job ran
            _try_to_write(partial(write_reports, folder, run.rules.reports()), folder)
    for file in files:
        _try_to_write(partial(_write_page, file, page), file)
    print(f"[stoker] profile: {files[0]}", flush=True)
    return 0


def read_run(job: Job, outcome: str, settings: Mapping[str, str]) -> Run:
    """What the files of a job tell, on the host that it ran on."""
    folder = Path(profiler_dir(job.paths, job.services.profiler))
    profile, remarks = read_profile(folder)
    rules, is_quick = evaluate_rules(profile, settings, remarks)
    findings = tuple(read_findings(findings_file(job.paths)))
    saved = SavedTensors(tensors_dir(job.paths, job.services.debug_hook))
    cluster = job.cluster
    return Run(
        title=job.name or "A profiled run",
        outcome=outcome,
        profile=profile,
        rules=rules,
        is_quick=is_quick,
        instances={cluster.instance_type: len(cluster.hosts)} if cluster.instance_type else {},
        region=job.environ.get("AWS_REGION", ""),
        statuses=tuple(read_rule_statuses(job.paths)),
        findings=findings,
        curves=tuple(read_curves(saved, required_steps=[fired.step for fired in findings])),
        metrics=_read_metrics(job),
        traces=find_traces(folder, *_trace_folders(job)),
        hosts=tuple(cluster.hosts),
        remarks=remarks,
    )


def evaluate_added_rules(job: Job, profile: Profile) -> None:
    """Rules that UpdateTrainingJob gave to a job that began without any, so without evaluator."""
    statuses = read_rule_statuses(job.paths)
    known = {status.name for status in statuses}
    added = [spec for spec in read_requested_rules(job) if spec.name not in known]
    for spec in added:
        rule = WatchedRule(spec)
        last = max((int(one.numbers[-1]) for one in profile.steps_of("TRAIN")), default=0)
        rule.evaluate_profile(profile, step=last, is_last=True)
        rule.finish(names=[], steps=0)
        statuses.append(rule.status)
        folder = Path(rule_output_dir(job.paths), spec.name, *REPORTS)
        _try_to_write(partial(write_reports, folder, rule.profiler_reports), folder)
    if added:
        _try_to_write(partial(write_rule_statuses, job.paths, statuses), "rules.json")


def _read_metrics(job: Job) -> dict[str, list[tuple[float, float]]]:
    """What `job.log` of rank 0 has written."""
    found: dict[str, list[tuple[float, float]]] = {}
    try:
        with open(metrics_file(job), encoding="utf-8") as file:
            for moment, _, metrics in parse_lines(file):
                for name, value in metrics.items():
                    found.setdefault(name, []).append((moment, value))
    except (OSError, UnicodeDecodeError):  # none were logged, or the file is damaged
        pass
    return found


def _trace_folders(job: Job) -> list[Path]:
    folders = (job.services.tensorboard_dir, job.paths.output_data_dir)
    return [Path(folder) for folder in folders if folder and os.path.isdir(folder)]


def _read_report_specs(job: Job) -> list[RuleSpec]:
    try:
        specs = read_specs(read_rule_plan(job.paths) or "[]")
    except (OSError, RuleInvalid):
        return []
    return [spec for spec in specs if spec.rule == PROFILER_REPORT]


def _write_page(file: str, page: str) -> None:
    os.makedirs(os.path.dirname(file), exist_ok=True)
    write_atomically(file, page)


def _try_to_write(write: Callable[[], None], place: object) -> None:
    try:
        write()
    except OSError as error:
        print(f"[stoker] warning: {place} cannot be written: {error.strerror}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
