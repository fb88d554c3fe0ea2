"""`stoker train … --on sagemaker` and `stoker tune … --on sagemaker`: what goes to the account."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.bus.progress import Progress
from stoker.cli.client.source import ARCHIVE_NAME, pack_source
from stoker.cli.client.submission import Submission, TrainingSpec
from stoker.cli.cloud.estimate import describe_cost
from stoker.cli.cloud.options import read_settings
from stoker.cli.cloud.preflight import require_accepted
from stoker.cli.cloud.secret_files import require_no_secrets
from stoker.cloud.account import Account
from stoker.cloud.image import is_remote, make_target, push_by_digest
from stoker.cloud.job_memory import SentJob, cloud_folder, hash_params
from stoker.cloud.request import (
    Places,
    make_queue_request,
    make_training_request,
    make_tuning_request,
    read_machines,
)
from stoker.cloud.settings import CloudSettings
from stoker.cloud.upload.bucket import Bucket
from stoker.cloud.upload.channel import channel_key, send_folder
from stoker.cloud.upload.folder import measure_folder, read_folder
from stoker.machine.aws import registry_address
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal
from stoker.machine.units import show_size
from stoker.platform.model.root import DEFAULT_BUCKET
from stoker.storage.s3 import split_uri

_UNKNOWN_ROLE = "arn:aws:iam::000000000000:role/THE-ROLE-THAT-TRUSTS-SAGEMAKER"


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudSubmission:
    """All that is known before AWS is asked anything."""

    spec: TrainingSpec
    submission: Submission
    settings: CloudSettings

    @property
    def is_tuning(self) -> bool:
        """Whether the request is that of a search."""
        return "HyperParameterTuningJobName" in self.submission.request

    @property
    def script(self) -> Path:
        """The entry point on this machine."""
        return self.spec.source_dir / self.spec.entry_point

    @property
    def folders(self) -> dict[str, Path]:
        """Channels that are folders of this machine."""
        return {name: at for name, at in self.spec.channels.items() if isinstance(at, Path)}

    @property
    def instance_types(self) -> list[str]:
        """Of all hosts, as they were asked for."""
        groups = [group.instance_type for group in self.settings.groups]
        return groups or list(self.settings.preferred_types) or [self.spec.instance_type]

    def make_request(self, places: Places) -> dict[str, Any]:
        """The request for the account."""
        make = make_tuning_request if self.is_tuning else make_training_request
        return make(self.submission.request, self.settings, places, local_bucket=DEFAULT_BUCKET)

    def describe_cost(self, request: Mapping[str, Any], args: argparse.Namespace) -> list[str]:
        """Lines about the price."""
        trials = 1
        training = request
        if self.is_tuning:
            training = request["TrainingJobDefinition"]
            limits = request["HyperParameterTuningJobConfig"]["ResourceLimits"]
            trials = limits.get("MaxNumberOfTrainingJobs", 1)
        return describe_cost(
            training,
            region=self.settings.region,
            script=self.script,
            entry_point=self.spec.entry_point,
            jobs=trials,
            steps=args.steps,
        )

    def sent_job(self, request: Mapping[str, Any], *, queue_job: str = "") -> SentJob:
        """What this machine remembers of it."""
        training = request["TrainingJobDefinition"] if self.is_tuning else request
        kind = "tuning" if self.is_tuning else "queued" if queue_job else "training"
        return SentJob(
            name=request.get("TrainingJobName") or request["HyperParameterTuningJobName"],
            region=self.settings.region or "",
            endpoint=read_environment().get("AWS_ENDPOINT_URL", ""),
            kind=kind,
            script=str(self.script),
            machines=read_machines(training),
            queue_job=queue_job,
            params_hash=hash_params(training),
        )


def make_cloud_submission(
    args: argparse.Namespace, spec: TrainingSpec, submission: Submission
) -> CloudSubmission:
    """Check everything that can be checked here.

    Raises:
        UsageRefused: options, files or fields do not fit; nothing was sent.
    """
    settings = read_settings(args)
    if not args.allow_secrets:
        require_no_secrets(submission.source)
    made = CloudSubmission(spec=spec, submission=submission, settings=settings)
    require_accepted(made.make_request(_guess_places(made)), settings)
    return made


def print_dry_run(made: CloudSubmission, args: argparse.Namespace) -> None:
    """The request on stdout, as a file for the AWS CLI; what else would happen on stderr."""
    request = made.make_request(_guess_places(made))
    is_queued = made.settings.queue is not None
    sent = make_queue_request(request, made.settings) if is_queued else request
    print(json.dumps(sent, indent=1))
    lines = ["nothing was sent; a submission would", *(f"  {text}" for text in _list_steps(made))]
    print(*lines, *made.describe_cost(request, args), sep="\n", file=sys.stderr)


def _list_steps(made: CloudSubmission) -> list[str]:
    places = _guess_places(made)
    source = made.submission.source
    target = f"{places.base}/{made.submission.source_key}"
    steps = [f"send {len(source.names)} files of code, {show_size(source.size_bytes)}: {target}"]
    for name, folder in made.folders.items():
        files, size_bytes = measure_folder(folder)
        steps.append(
            f"send channel {name}, {files} files, {show_size(size_bytes)}: "
            f"{places.channels[name]} (only what is not there)"
        )
    if not is_remote(made.spec.image):
        target_name = make_target(
            made.spec.image, made.settings.repository, registry="the account's ECR registry"
        ).name
        steps.append(f"push {made.spec.image} to {target_name}, unless its digest is there")
    if not made.settings.role:
        steps.append("look for the role that trusts SageMaker")
    if made.settings.queue:
        steps.append(f"submit the job to the queue {made.settings.queue} of AWS Batch")
    return steps


def _guess_places(made: CloudSubmission) -> Places:
    """Where things would be, as far as that is known without asking AWS."""
    role = made.settings.role or _UNKNOWN_ROLE
    parts = role.split(":")
    is_arn = role.startswith("arn:")
    account = parts[4] if len(parts) > 4 and role != _UNKNOWN_ROLE else "account"
    region = made.settings.region or "region"
    base = made.settings.output or f"s3://sagemaker-{region}-{account}"
    return Places(
        role_arn=role if is_arn else f"arn:aws:iam::000000000000:role/{role}",
        base=base,
        image=made.spec.image,
        channels={name: f"{base}/{channel_key('', 'content-hash')}" for name in made.folders},
    )


def send_everything(made: CloudSubmission, account: Account, terminal: Terminal) -> dict[str, Any]:
    """Find the role, push the image, send code and data: everything but the job itself.

    What is there already is not sent again, so a command that was cut continues.

    Returns:
        The request.
    """
    role = account.find_role(made.settings.role)
    base = made.settings.output or f"s3://{account.default_bucket}"
    bucket, prefix = _open_bucket(base, account)
    code = f"{prefix}{made.submission.source_key}"
    is_code_there = bucket.is_seen(code)
    if not is_code_there:
        account.require_bucket(bucket.name)  # before the image, which may take minutes
    terminal.line(f"  role    {role}")
    image = _find_image(made, account, terminal)
    if not is_code_there:
        _send_code(made, bucket, code, terminal.progress)
        terminal.status("")
    channels = {
        name: _send_channel(name, folder, bucket, prefix, terminal)
        for name, folder in made.folders.items()
    }
    places = Places(role_arn=role, base=base, image=image, channels=channels)
    return made.make_request(places)


def _find_image(made: CloudSubmission, account: Account, terminal: Terminal) -> str:
    image = made.spec.image
    if is_remote(image) or account.is_local:  # the local platform has the engine's own images
        return image
    registry = registry_address(account.number, account.region)
    found = push_by_digest(
        make_target(image, made.settings.repository, registry=registry), account
    )
    terminal.line(f"  image   {image} is {found}")
    return found


def _open_bucket(base: str, account: Account) -> tuple[Bucket, str]:
    """The bucket of an address, and the prefix of all keys."""
    name, key = split_uri(base)
    # Everyone can guess the name of the usual bucket, and make it first in another account.
    owner = account.number if name == account.default_bucket else None
    return Bucket(account, name, owner=owner), f"{key.strip('/')}/" if key.strip("/") else ""


def _send_code(
    made: CloudSubmission, bucket: Bucket, key: str, show: Callable[[str], object]
) -> None:
    if bucket.has(key):
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / ARCHIVE_NAME
        pack_source(made.submission.source, archive, show=show)
        progress = Progress("upload of the code", archive.stat().st_size, show=show)
        bucket.put_file(key, archive, on_bytes=progress.add)


def _send_channel(name: str, folder: Path, bucket: Bucket, prefix: str, terminal: Terminal) -> str:
    memory = cloud_folder() / "folders"
    _, size_bytes = measure_folder(folder)
    reading = Progress(f"reading {name}", size_bytes, show=terminal.progress)
    content = read_folder(folder, memory=memory, on_bytes=reading.add)
    if not content.files:
        raise UsageRefused(f"channel {name}: {folder} has no files", fix="put a file into it")
    sent = send_folder(
        content,
        bucket,
        prefix=prefix,
        memory=memory,
        show=terminal.progress,
        name=name,
    )
    terminal.status("")
    what = f"{sent.sent_files} files sent, {show_size(sent.sent_bytes)}"
    what += f", {sent.copied_files} copied in S3" if sent.copied_files else ""
    is_there = not sent.sent_files and not sent.copied_files
    terminal.line(f"  channel {name}: {'already there' if is_there else what}: {sent.uri}")
    return sent.uri
