"""The run behind a name: a job of the local platform, a folder, or an address of S3."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from stoker.cli.client.job_place import PROFILES, find_place
from stoker.cli.client.platform_api import open_api
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.target import find_cloud_target
from stoker.errors import PreparationFailed
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import REGION, Root
from stoker.report.described_job import read_described_job
from stoker.report.figures.run import Run, evaluate_rules, find_profile, find_traces, read_profile

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
    run = _read_job(args, place, folder) if is_job else _read_folder(place, folder)
    if args.instance_type:
        run = replace(run, instances={args.instance_type: max(1, len(run.profile.nodes))})
    return replace(run, region=args.region) if args.region else run


def _read_folder(place: str, folder: Path) -> Run:
    profile, remarks = read_profile(folder)
    rules, is_quick = evaluate_rules(profile)
    return Run(
        title=place if place.startswith("s3://") else Path(place).resolve().name,
        profile=profile,
        rules=rules,
        is_quick=is_quick,
        traces=find_traces(folder),
        remarks=remarks,
    )


def _read_job(args: argparse.Namespace, name: str, folder: Path) -> Run:
    """A job of the platform, which keeps everything here, or of SageMaker."""
    if target := find_cloud_target(args, name):
        return read_described_job(
            target.jobs.describe(target.training_job),
            folder,
            locate=lambda _: None,
            metrics={},
            region=target.jobs.account.region,
        )
    root = Root(root_folder(args))
    api = open_api(root)
    return read_described_job(
        api.describe(name),
        folder,
        locate=lambda uri: root.s3_dir / uri.removeprefix("s3://"),
        metrics=api.read_metrics(name),
        region=REGION,
    )


def _download(uri: str, folder: Path) -> str:
    # boto3 takes a second to import.
    from stoker.storage.aws import download

    try:
        return str(download(uri, folder, fix="check the address and the permissions"))
    except PreparationFailed as error:
        raise UsageRefused(error.message, fix=error.fix) from error
