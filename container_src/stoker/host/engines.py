"""Where a job runs on this machine: in a container, or as a process where there is no engine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stoker.contract.cluster import DEFAULT_HOST
from stoker.contract.paths import ROOT_VARIABLE, Paths
from stoker.host.docker import find_client, image_present, require_engine
from stoker.host.failures import EngineMissing, ImageMissing
from stoker.host.job_folder import JobSpec

EngineName = Literal["auto", "docker", "process"]
_REGION = "us-east-1"
_SHM_SIZE = "2g"  # the engine's own default of 64 MB is too small for DataLoader workers


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """The engine chosen, and why."""

    name: Literal["docker", "process"]
    reason: str
    client: str = ""


def choose_engine(asked: EngineName, image: str) -> Engine:
    """Takes the container where one can be had; says so where it cannot.

    Raises:
        EngineMissing: Docker was asked for and none answers.
        ImageMissing: the engine has no such image.
    """
    if asked == "process":
        return Engine(name="process", reason="as asked")
    try:
        client = find_client()
        version = require_engine(client)
    except EngineMissing as error:
        if asked == "docker":
            raise
        return Engine(name="process", reason=f"no container: {error.message}")
    if not image_present(client, image):
        raise ImageMissing(
            f"Docker has no image {image}",
            fix="stoker build makes stoker:cpu and stoker:cuda; --image names another",
        )
    return Engine(name="docker", reason=f"Docker {version}, image {image}", client=client)


def make_command(engine: Engine, spec: JobSpec, paths: Paths, *, image: str) -> list[str]:
    """The command that runs the job, as the service would start it."""
    variables = {
        "TRAINING_JOB_NAME": spec.name,
        "TRAINING_JOB_ARN": f"arn:aws:sagemaker:{_REGION}:000000000000:training-job/{spec.name}",
        "AWS_REGION": _REGION,
    }
    if engine.name == "process":
        assigned = [f"{name}={text}" for name, text in variables.items()]
        root = f"{ROOT_VARIABLE}={paths.root}"
        return ["env", root, *assigned, sys.executable, "-m", "stoker.runtime"]
    command = [engine.client, "run", "--rm", "--name", spec.name, "--hostname", DEFAULT_HOST]
    command += ["--shm-size", _SHM_SIZE, "--stop-timeout", "120"]
    command += ["--volume", f"{paths.root}:/opt/ml"]
    for name, folder in spec.channels.items():
        command += ["--volume", f"{folder}:/opt/ml/input/data/{name}:ro"]
    for name, text in variables.items():
        command += ["--env", f"{name}={text}"]
    return [*command, image, "train"]


def make_ownership_command(engine: Engine, paths: Paths, *, image: str) -> list[str] | None:
    """Gives the user the files that the container's root made; None where that is the same."""
    if engine.name == "process" or os.getuid() == 0:
        return None
    owner = f"{os.getuid()}:{os.getgid()}"
    command = [engine.client, "run", "--rm", "--network", "none", "--entrypoint", "chown"]
    return [*command, "--volume", f"{paths.root}:/opt/ml", image, "-R", owner, "/opt/ml"]


def link_channels(spec: JobSpec, paths: Paths) -> None:
    """For the process engine: the channels are where the contract says, without a mount."""
    for name, folder in spec.channels.items():
        Path(paths.data_dir, name).symlink_to(folder)
