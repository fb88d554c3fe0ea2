"""Where a job of the local platform keeps its tensors or its checkpoints."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.cli.client.platform_api import open_api
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.server import find_server
from stoker.cli.client.target import find_cloud_target
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import Root

_JOB = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9])*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A kind of things that jobs keep in S3."""

    name: str
    config: str
    """The part of the request that asks for it."""

    address: str
    """The member of it that says where."""

    suffix: str
    """What the service puts behind that address; {job} is the job's name."""

    fix: str
    """How a job is made to keep them."""


TENSORS = Saved(
    name="tensors",
    config="DebugHookConfig",
    address="S3OutputPath",
    suffix="/{job}/debug-output",
    fix="stoker train --env STOKER_DEBUG='collections=losses', or debugger_hook_config=",
)
PROFILES = Saved(
    name="profile",
    config="ProfilerConfig",
    address="S3OutputPath",
    suffix="/{job}/profiler-output",
    fix="stoker train --env STOKER_PROFILE=auto, or profiler_config=",
)
CHECKPOINTS = Saved(
    name="checkpoints",
    config="CheckpointConfig",
    address="S3Uri",
    suffix="",
    fix="stoker train --spot SPEC (here) or --use-spot (SageMaker), or checkpoint_s3_uri=",
)


def find_place(args: argparse.Namespace, saved: Saved) -> str:
    """What the user means by `args.place`: a folder, an s3:// address or the name of a job.

    Raises:
        UsageRefused: a name is neither a folder nor a job, or the job keeps no such things.
    """
    text = str(args.place)
    if text.startswith("s3://") or Path(text).exists():
        return text
    is_name = _JOB.fullmatch(text) is not None
    if (is_name or text.startswith("arn:")) and (target := find_cloud_target(args, text)):
        return _find_address(target.jobs.describe(target.training_job), saved)
    # Neither a name nor an address: a path that is not there; who opens it says so.
    if not is_name:
        return text
    root = Root(root_folder(args))
    if find_server(root) is None:
        raise UsageRefused(
            f"{text} is not a folder here, and no platform runs that could have a job {text}",
            fix="name a folder, or start the platform: stoker local up --detach",
        )
    return str(_find_folder(open_api(root).describe(text), root, saved))


def _find_address(description: Mapping[str, Any], saved: Saved) -> str:
    job = description["TrainingJobName"]
    config = description.get(saved.config)
    if config is None:
        raise UsageRefused(
            f"the job {job} was started without a {saved.config}: it keeps no {saved.name}",
            fix=saved.fix,
        )
    address: str = config[saved.address]
    return address.rstrip("/") + saved.suffix.format(job=job)


def _find_folder(description: Mapping[str, Any], root: Root, saved: Saved) -> Path:
    job, uri = description["TrainingJobName"], _find_address(description, saved)
    folder = root.s3_dir / uri.removeprefix("s3://")
    if not folder.is_dir():
        raise UsageRefused(
            f"the job {job} ({description['TrainingJobStatus']}) has saved no {saved.name}: "
            f"nothing is in {uri}",
            fix=f"see its log: stoker logs {job}",
        )
    return folder
