"""`stoker tune`: a search on the platform of this machine, watched to its end."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from stoker.cli.client.best_command import make_best_command
from stoker.cli.client.interrupts import Interrupts
from stoker.cli.client.platform_api import open_api
from stoker.cli.client.preflight import require_disk, require_image
from stoker.cli.client.root_folder import command_line, root_folder
from stoker.cli.client.server import find_server
from stoker.cli.client.submission import Submission, TrainingSpec
from stoker.cli.client.target import Jobs, open_jobs
from stoker.cli.client.training_spec import make_spec
from stoker.cli.client.tuning_display import (
    LiveTable,
    TrialRow,
    make_rows,
    read_objectives,
    render_csv,
    render_table,
)
from stoker.cli.client.tuning_page import render_search
from stoker.cli.client.tuning_request import SCRIPT_TAG, make_tuning_submission
from stoker.cli.cloud.place import require_place
from stoker.cli.cloud.run import submit_tuning
from stoker.cli.commands.train import ensure_server
from stoker.cloud.jobs import CloudJobs
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root, open_root

_OVER = ("Completed", "Stopped", "Failed")
_LOOK_SECONDS = 1.0
_FAR_LOOK_SECONDS = 15.0  # SageMaker limits the rate of calls
_INTERRUPTED = 130  # as a shell reports it: 128 + SIGINT


def run(args: argparse.Namespace) -> int:
    """Start a search; or show, stop or name the best of one."""
    verb = _VERBS.get(str(args.script))
    # `stoker tune show NAME`: without a second word, `show` is a script's name.
    if verb is not None and args.job is not None:
        return verb(args, _open_jobs(args))
    if args.job is not None:
        raise UsageRefused(
            f"{args.job} is not an option", fix="one script; what follows -- is the script's own"
        )
    require_place(args)
    spec = make_spec(argparse.Namespace(**{**vars(args), "name": None}))
    submission = make_tuning_submission(args, spec)
    if args.on == "sagemaker":
        return _run_in_the_cloud(args, spec, submission)
    folder = root_folder(args)
    require_disk(folder, submission.source.size_bytes)
    running = find_server(Root(folder))
    if args.dry_run or not running:
        require_image(spec.image, running.engine if running else args.engine)
    if args.dry_run:
        print(json.dumps(submission.request, indent=1))
        return 0
    root = open_root(folder)
    terminal = _open_terminal(args)
    server = ensure_server(root, args, terminal)
    name = submission.request["HyperParameterTuningJobName"]
    terminal.line(f"tune: {name}, engine: {server.engine} ({server.reason})")
    api = open_api(root)
    api.send_code(submission, show=terminal.progress)
    terminal.status("")
    # From here on Ctrl-C stops the search: one that comes while it is created must not leave it.
    with Interrupts() as interrupts:
        api.call("sagemaker", "CreateHyperParameterTuningJob", **submission.request)
        if args.detach and not interrupts.count:
            terminal.line(f"  watch  {command_line(args, 'tune', 'show', name)}")
            return 0
        return _watch(args, api, name, terminal, interrupts)


def _open_jobs(args: argparse.Namespace) -> Jobs:
    # Of a search, --on has a default: only what was asked for decides.
    on = args.on if args.on == "sagemaker" else None
    found = argparse.Namespace(**{**vars(args), "on": on})
    jobs, args.job = open_jobs(found, args.job)
    return jobs


def _run_in_the_cloud(args: argparse.Namespace, spec: TrainingSpec, submission: Submission) -> int:
    terminal = _open_terminal(args)
    jobs = submit_tuning(args, spec, submission, terminal)
    if jobs is None:
        return 0
    name = submission.request["HyperParameterTuningJobName"]
    if args.detach:
        terminal.line(f"  watch  {command_line(args, 'tune', 'show', name)}")
        return 0
    with Interrupts() as interrupts:
        return _watch(args, jobs, name, terminal, interrupts)


def _open_terminal(args: argparse.Namespace) -> Terminal:
    """Where the search is shown: with --json or --csv stdout has nothing but the answer."""
    return Terminal(sys.stderr if args.json or args.csv else sys.stdout)


def _watch(
    args: argparse.Namespace, api: Jobs, name: str, terminal: Terminal, interrupts: Interrupts
) -> int:
    try:
        description, rows = _watch_to_the_end(api, name, terminal, interrupts)
    except KeyboardInterrupt:
        # Two in quick succession: the first has not been passed on yet.
        with suppress(UsageRefused):
            _ask_to_stop(api, name)
        terminal.status("")
        terminal.line(f"tune: {name} was asked to stop and continues without this command")
        terminal.line(f"  watch  {command_line(args, 'tune', 'show', name)}")
        return _INTERRUPTED
    _print_end(args, description, rows, terminal)
    if interrupts.count:
        return _INTERRUPTED
    return 0 if description["HyperParameterTuningJobStatus"] == "Completed" else 1


def _watch_to_the_end(
    api: Jobs, name: str, terminal: Terminal, interrupts: Interrupts
) -> tuple[dict[str, Any], list[TrialRow]]:
    table = LiveTable(terminal)
    is_told = False
    said = ""
    curves: dict[str, list[float]] = {}
    while True:
        description, rows = read_search(api, name, curves)
        table.show(rows)
        if description["HyperParameterTuningJobStatus"] in _OVER:
            return description, rows
        if interrupts.count and not is_told:
            is_told = True
            table.line("tune: stopping; every trial and its results are kept")
            with suppress(UsageRefused):  # it has just ended by itself
                _ask_to_stop(api, name)
        is_far = isinstance(api, CloudJobs) and not api.account.is_local
        if not is_far and said != (said := api.find_full_disk() or _find_wait(api, rows)):
            table.line(f"tune: {said}" if said else "tune: continues")
        time.sleep(_FAR_LOOK_SECONDS if is_far else _LOOK_SECONDS)


def _find_wait(api: Jobs, rows: Sequence[TrialRow]) -> str:
    """Why the first trial in progress does not train, if its engine does not answer."""
    for row in rows:
        if row.state == "InProgress":
            with suppress(UsageRefused):  # its training job is about to be created
                last = api.describe(row.job)["SecondaryStatusTransitions"][-1]
                message: str = last.get("StatusMessage", "")
                return message if message.startswith("Waiting for the engine") else ""
    return ""


def _ask_to_stop(api: Jobs, name: str) -> None:
    api.call("sagemaker", "StopHyperParameterTuningJob", HyperParameterTuningJobName=name)


def read_search(
    api: Jobs, name: str, curves: dict[str, list[float]] | None = None
) -> tuple[dict[str, Any], list[TrialRow]]:
    """What is known about a search and its trials.

    Args:
        api: of the platform.
        name: of the search.
        curves: of trials that have ended; kept up to date here, so that each is read once.
    """
    where = {"HyperParameterTuningJobName": name}
    description = api.call("sagemaker", "DescribeHyperParameterTuningJob", **where)
    operation = "ListTrainingJobsForHyperParameterTuningJob"
    pages = api.pages("sagemaker", operation, MaxResults=100, **where)
    summaries = [each for page in pages for each in page["TrainingJobSummaries"]]
    objectives = read_objectives(description)
    ended = curves if curves is not None else {}
    shown = {}
    for each in summaries:
        job = each["TrainingJobName"]
        objective = objectives[each.get("TrainingJobDefinitionName", "")]
        shown[job] = ended.get(job) or api.read_curve(job, objective["MetricName"])
        if each["TrainingJobStatus"] in _OVER:
            ended[job] = shown[job]
    return description, make_rows(description, summaries, shown)


def _show(args: argparse.Namespace, api: Jobs) -> int:
    description, rows = read_search(api, args.job)
    _print_end(args, description, rows, _open_terminal(args), is_table=True)
    return 0


def _stop(args: argparse.Namespace, api: Jobs) -> int:
    _ask_to_stop(api, args.job)
    print(f"tune: {args.job} is stopping; see {command_line(args, 'tune', 'show', args.job)}")
    return 0


def _best(args: argparse.Namespace, api: Jobs) -> int:
    description, _ = read_search(api, args.job)
    best = description.get("BestTrainingJob")
    if best is None:
        raise UsageRefused(
            f"{args.job} has no trial with an objective yet",
            fix=f"see its trials: {command_line(args, 'tune', 'show', args.job)}",
        )
    if args.json:
        print(json.dumps(best, indent=1, default=str))
        return 0
    training = api.describe(best["TrainingJobName"])
    arn = description["HyperParameterTuningJobArn"]
    tags = api.call("sagemaker", "ListTags", ResourceArn=arn).get("Tags", ())
    script = next((tag["Value"] for tag in tags if tag["Key"] == SCRIPT_TAG), "")
    print(command_line(args, *make_best_command(best, training, script)))
    return 0


_VERBS = {"show": _show, "stop": _stop, "best": _best}


def _print_end(
    args: argparse.Namespace,
    description: Mapping[str, Any],
    rows: list[TrialRow],
    terminal: Terminal,
    *,
    is_table: bool = False,
) -> None:
    if args.page is not None:
        args.page.write_text(render_search(description, rows))
    if args.csv:
        print(render_csv(rows), end="")
    elif args.json:
        trials = [
            {
                "trial": row.number,
                "job": row.job,
                **({"definition": row.definition} if row.definition else {}),
                "parameters": row.parameters,
                "state": row.state,
                "values": row.curve,
            }
            for row in rows
        ]
        print(json.dumps({"search": description, "trials": trials}, indent=1, default=str))
    if args.csv or args.json:
        return
    if is_table or not terminal.is_live:
        for line in render_table(rows):
            terminal.line(line)
    name = description["HyperParameterTuningJobName"]
    terminal.line(f"tune: {name} is {description['HyperParameterTuningJobStatus']}")
    if reason := description.get("FailureReason"):
        terminal.line(f"  reason  {reason}")
    if best := description.get("BestTrainingJob"):
        value = best["FinalHyperParameterTuningJobObjectiveMetric"]
        terminal.line(
            f"  best    {best['TrainingJobName']}: {value['MetricName']} {value['Value']:.6g}"
        )
        terminal.line(f"  again   {command_line(args, 'tune', 'best', name)}")
