"""Which platform or account a verb speaks to, and the name of its job there."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.client.patience import Patience
from stoker.cli.client.platform_api import Api, open_api
from stoker.cli.client.processing import open_api_of
from stoker.cli.client.root_folder import root_folder
from stoker.cloud.account import Account
from stoker.cloud.job_memory import SentJob, recall
from stoker.cloud.jobs import CloudJobs, parse_job
from stoker.cloud.queue import read_queued_job
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal
from stoker.platform.model.root import Root

Jobs = Api | CloudJobs
_QUEUE_PAUSE_SECONDS = 10.0  # waiting for a place takes minutes to hours


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudTarget:
    """A job of an account."""

    jobs: CloudJobs
    name: str
    sent: SentJob | None
    """What this machine remembers of its submission."""

    @property
    def queue_job(self) -> str:
        """The id of Batch's job; empty if it was sent to SageMaker itself."""
        return self.sent.queue_job if self.sent else ""

    @property
    def training_job(self) -> str:
        """The name of the training job: of a queued one, Batch has chosen it.

        Raises:
            UsageRefused: it is still in its queue.
        """
        if not self.queue_job:
            return self.name
        queued = read_queued_job(self.jobs, self.queue_job)
        if queued.training_job is None:
            raise UsageRefused(
                f"{self.name} has no training job yet: in its queue it is {queued.status}",
                fix=f"stoker attach {self.name} waits for it",
            )
        return queued.training_job


def find_cloud_target(args: argparse.Namespace, text: str | None) -> CloudTarget | None:
    """The account and the job that are meant; None: it is a job of this machine's platform.

    Without --on, a job is on SageMaker if its ARN says so or if it was sent there from here.

    Raises:
        UsageRefused: it was sent to another endpoint than AWS's variables name now.
    """
    on = getattr(args, "on", None)
    name, region = parse_job(text or "")
    sent = recall(name) if name else None
    is_named = bool(text and text.startswith("arn:"))
    root = getattr(args, "root", None)
    # --root names a platform of this machine, so it decides, too.
    if on == "local" or root is not None or not (on or is_named or sent):
        return None
    if sent and on is None and not is_named:
        _require_same_endpoint(sent)
    if sent and sent.kind == "tuning" and getattr(args, "verb", "tune") != "tune":
        raise UsageRefused(
            f"{name} is a search, not a training job",
            fix=f"stoker tune {'stop' if getattr(args, 'verb', '') == 'stop' else 'show'} {name}",
        )
    chosen = getattr(args, "region", None) or region or (sent.region if sent else None) or None
    return CloudTarget(jobs=CloudJobs(Account(region=chosen)), name=name, sent=sent)


def find_output(args: argparse.Namespace, text: str) -> str:
    """Where a job of SageMaker has left its output; any other text as it is."""
    if text.startswith("s3://") or Path(text).exists():
        return text
    # Here --root names the store of runs, not the platform of the job.
    target = find_cloud_target(argparse.Namespace(**{**vars(args), "root": None}), text)
    if target is None:
        return text
    name = target.training_job
    place = target.jobs.describe(name)["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    return f"{place}/{name}/output"


def open_jobs(args: argparse.Namespace, text: str | None) -> tuple[Jobs, str]:
    """What answers for the job, and its name there."""
    target = find_cloud_target(args, text)
    if target is None:
        root = Root(root_folder(args))
        return (open_api_of(root, text) if text else open_api(root)), text or ""
    return target.jobs, target.name


def wait_for_training_job(target: CloudTarget, terminal: Terminal) -> str:
    """The training job's name; of a queued one, as soon as Batch has submitted it.

    Raises:
        UsageRefused: it left the queue without one.
    """
    if not target.queue_job:
        return target.name
    patience = Patience(terminal, is_local=target.jobs.account.is_local)
    # A queue may take days: a cut must not end the wait.
    target.jobs.on_lost = patience.on_lost
    try:
        while True:
            queued = read_queued_job(target.jobs, target.queue_job)
            if queued.training_job:
                terminal.status("")
                return queued.training_job
            if queued.is_over:
                raise UsageRefused(
                    f"{target.name} left its queue without a training job: {queued.status}: "
                    f"{queued.reason}",
                    fix="see the message of AWS Batch, then submit it again",
                )
            terminal.status(f"» in the queue: {queued.status} {queued.reason}".rstrip())
            patience.wait(_QUEUE_PAUSE_SECONDS)
    except KeyboardInterrupt:
        terminal.status("")
        terminal.line(f"{target.name} stays in its queue")
        terminal.line(f"  watch   stoker attach {target.name}")
        terminal.line(f"  stop    stoker stop {target.name}")
        raise


def _require_same_endpoint(sent: SentJob) -> None:
    now = read_environment().get("AWS_ENDPOINT_URL", "")
    if sent.endpoint != now:
        raise UsageRefused(
            f"{sent.name} was sent to {sent.endpoint or 'AWS'}, but now AWS_ENDPOINT_URL is "
            f"{now or 'not set'}",
            fix=f"export AWS_ENDPOINT_URL={sent.endpoint}"
            if sent.endpoint
            else "unset AWS_ENDPOINT_URL, or say --on sagemaker",
        )
