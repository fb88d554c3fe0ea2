"""`stoker train` and `stoker tune` with `--on sagemaker`: from the options to the job's end."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

from stoker.cli.client.submission import Submission, TrainingSpec, make_submission
from stoker.cli.client.target import CloudTarget, wait_for_training_job
from stoker.cli.client.train_defaults import with_defaults
from stoker.cli.client.training_spec import make_spec
from stoker.cli.cloud.follow import say_how_to_continue, watch_to_the_end
from stoker.cli.cloud.submit import (
    CloudSubmission,
    make_cloud_submission,
    print_dry_run,
    send_everything,
)
from stoker.cloud.account import Account
from stoker.cloud.job_memory import SentJob, remember
from stoker.cloud.jobs import CloudJobs
from stoker.cloud.queue import require_queue, submit
from stoker.cloud.request import make_queue_request
from stoker.machine.terminal import Terminal


def run_training(args: argparse.Namespace) -> int:
    """Submit a training job and watch it."""
    args = _complete(args)
    spec = make_spec(args)
    made = make_cloud_submission(args, spec, make_submission(spec))
    if args.dry_run:
        print_dry_run(made, args)
        return 0
    terminal = Terminal(sys.stderr if args.json else sys.stdout)
    jobs = CloudJobs(Account(region=made.settings.region))
    made, request = _send(made, jobs, args, terminal)
    sent = _create(made, jobs, request, terminal)
    remember(sent)
    if args.detach:
        terminal.line(f"train: {sent.name} is submitted")
        say_how_to_continue(sent.name, terminal)
        if args.json:
            print(json.dumps({"job": sent.name, "request": request}, indent=1))
        return 0
    target = CloudTarget(jobs=jobs, name=sent.name, sent=sent)
    return watch_to_the_end(jobs, wait_for_training_job(target, terminal), terminal, args)


def submit_tuning(
    args: argparse.Namespace, spec: TrainingSpec, submission: Submission, terminal: Terminal
) -> CloudJobs | None:
    """Start a search on SageMaker; None after a dry run."""
    args = _complete(args)
    made = make_cloud_submission(args, spec, submission)
    if args.dry_run:
        print_dry_run(made, args)
        return None
    jobs = CloudJobs(Account(region=made.settings.region))
    made, request = _send(made, jobs, args, terminal)
    if jobs.create_search(request):
        name = request["HyperParameterTuningJobName"]
        terminal.line(f"tune: {name} was submitted before and runs")
    remember(made.sent_job(request))
    return jobs


def _complete(args: argparse.Namespace) -> argparse.Namespace:
    """The table [train] of stoker.toml has options of the cloud, too."""
    return with_defaults(args, (args.source_dir or args.script.parent).absolute())


def _send(
    made: CloudSubmission, jobs: CloudJobs, args: argparse.Namespace, terminal: Terminal
) -> tuple[CloudSubmission, dict[str, Any]]:
    account = jobs.account
    # AWS's own settings may have named it in a way that a dry run does not read.
    made = replace(made, settings=replace(made.settings, region=account.region))
    local = made.submission.request
    name = local.get("TrainingJobName") or local["HyperParameterTuningJobName"]
    verb = "tune" if made.is_tuning else "train"
    terminal.line(f"{verb}: {name} on SageMaker, account {account.number}, {account.region}")
    for text in made.submission.source.explain():
        terminal.line(f"  {text}")
    for text in account.describe_unknown_types(made.instance_types):
        terminal.line(f"  {text}")
    if made.settings.queue:
        require_queue(account, made.settings.queue)  # before anything is sent
    request = send_everything(made, account, terminal)
    for text in made.describe_cost(request, args):
        terminal.line(f"  {text}")
    return made, request


def _create(
    made: CloudSubmission, jobs: CloudJobs, request: dict[str, Any], terminal: Terminal
) -> SentJob:
    if made.settings.queue:
        queue_job, is_there = submit(jobs.account, make_queue_request(request, made.settings))
        if is_there:
            terminal.line(f"train: {request['TrainingJobName']} was submitted before and waits")
        return made.sent_job(request, queue_job=queue_job)
    if jobs.create(request):
        terminal.line(f"train: {request['TrainingJobName']} was submitted before and runs")
    return made.sent_job(request)
