"""A job that does nothing, from CreateTrainingJob to Completed, compared with SDK v2's local mode.

Usage: python benchmarks/job_overhead.py [--rounds 7] [--image stoker:cpu] [--json]

The platform and local mode take turns on the same image with the same empty script; the figures
are medians. Ours counts all that the service does: input downloaded from S3, the container, the
log, the model packed and uploaded, as boto3 sees it. Local mode's figure is `estimator.fit()`
alone, in a process that has imported the SDK long before. A bare `docker run` of the same image
is what the engine itself needs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import boto3
from botocore.config import Config

from figures import CannotMeasure, Figure, run, say

GOAL = 0.6
_REPOSITORY = Path(__file__).resolve().parents[1]
_SDK_PYTHON = _REPOSITORY / ".venv-sdk-v2/bin/python"
_LIMIT_SECONDS = 600
_STEP_SECONDS = 0.02
_SCRIPT = "import os; open(os.environ['SM_MODEL_DIR'] + '/model.bin', 'w').write('x')\n"
# Runs in the SDK's own environment: one job for each line it reads, its seconds for an answer.
_LOCAL_MODE = """
import logging, os, sys, time

answers = os.fdopen(os.dup(1), "w")  # the SDK prints, from its import on
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
import boto3
from sagemaker.estimator import Estimator
from sagemaker.local import LocalSession

image, work = sys.argv[1:]
logging.disable(logging.CRITICAL)
for line in sys.stdin:
    session = LocalSession(boto_session=boto3.Session(region_name="us-east-1"))
    session.config = {"local": {"local_code": True, "container_root": work}}
    estimator = Estimator(
        image_uri=image, role="arn:aws:iam::111111111111:role/dummy", instance_count=1,
        instance_type="local", entry_point="train.py", source_dir=f"{work}/source",
        output_path=f"file://{work}/out", sagemaker_session=session,
    )
    started = time.monotonic()
    estimator.fit({"train": f"file://{work}/data"})
    print(time.monotonic() - started, file=answers, flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="What a job costs in addition to its script.")
    parser.add_argument("--rounds", type=int, default=7, help="turns that each one takes")
    parser.add_argument("--image", default="stoker:cpu")
    return run(measure, parser, peer="SDK v2 local mode")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure: the median of each way."""
    if not _SDK_PYTHON.is_file():
        raise CannotMeasure("no .venv-sdk-v2: run `python docker/sdk_venv.py v2` first")
    # Containers write as root: what cannot be removed stays.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        for name in ("source", "data", "out", "root"):
            (work / name).mkdir()
        (work / "source/train.py").write_text(_SCRIPT)
        (work / "data/words.txt").write_text("coal")
        with _platform(work) as jobs, _local_mode(args.image, work) as peer:
            say(f"{args.rounds} rounds of the platform, local mode and docker run …")
            taken = [
                (jobs.run(args.image), _ask(peer), _run_bare(args.image, work))
                for _ in range(args.rounds + 1)
            ]
    # The first round warms caches and is not counted.
    ours, theirs, bare = (statistics.median(c) for c in zip(*taken[1:], strict=True))
    return [
        Figure(
            name="no-op job, CreateTrainingJob to Completed",
            ours=ours,
            peer=theirs,
            unit="s",
            goal=GOAL,
            others={"docker run": bare},
            note=f"local mode runs by {_compose_version()}",
        )
    ]


class PlatformJobs:
    """The platform, through plain boto3."""

    def __init__(self, environ: dict[str, str], work: Path) -> None:
        options = {
            "endpoint_url": environ["AWS_ENDPOINT_URL"],
            "aws_access_key_id": environ["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": environ["AWS_SECRET_ACCESS_KEY"],
            "region_name": environ["AWS_REGION"],
            "config": Config(proxies={}),
        }
        self._client = boto3.client("sagemaker", **options)
        self._count = 0
        s3 = boto3.client("s3", **options)
        self._bucket = s3.list_buckets()["Buckets"][0]["Name"]
        for name, file in (("code", "source/train.py"), ("train", "data/words.txt")):
            s3.upload_file(str(work / file), self._bucket, f"bench/{name}/{Path(file).name}")

    def run(self, image: str) -> float:
        """One job; the seconds until DescribeTrainingJob says Completed."""
        self._count += 1
        name = f"noop-{self._count}"
        started = time.monotonic()
        self._client.create_training_job(**self._request(name, image))
        while (status := self._status(name)) == "InProgress":
            if time.monotonic() > started + _LIMIT_SECONDS:
                raise CannotMeasure(f"{name} does not end")
            time.sleep(_STEP_SECONDS)
        seconds = time.monotonic() - started
        if status != "Completed":
            raise CannotMeasure(f"{name}: {status}")
        return seconds

    def _status(self, name: str) -> str:
        return str(self._client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"])

    def _request(self, name: str, image: str) -> dict[str, object]:
        channels = [
            {
                "ChannelName": channel,
                "DataSource": {
                    "S3DataSource": {
                        "S3DataType": "S3Prefix",
                        "S3Uri": f"s3://{self._bucket}/bench/{channel}/",
                    }
                },
            }
            for channel in ("code", "train")
        ]
        return {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::000000000000:role/bench",
            "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
            "HyperParameters": {"sagemaker_program": "train.py"},
            "InputDataConfig": channels,
            "OutputDataConfig": {"S3OutputPath": f"s3://{self._bucket}/bench/out"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.xlarge",
                "InstanceCount": 1,
                "VolumeSizeInGB": 1,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }


@contextmanager
def _platform(work: Path) -> Iterator[PlatformJobs]:
    place = ["--root", str(work / "root")]
    _stoker("local", "up", "--detach", "--engine", "docker", *place)
    try:
        shown = json.loads(_stoker("local", "env", "--shell", "json", *place))
        yield PlatformJobs(shown, work)
    finally:
        _stoker("local", "down", *place)


def _stoker(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stoker.cli.main", *arguments], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise CannotMeasure(f"stoker {' '.join(arguments[:2])}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def _local_mode(image: str, work: Path) -> Iterator[subprocess.Popen[str]]:
    environ = dict(os.environ)  # noqa: TID251 - a benchmark is not a job
    command = [str(_SDK_PYTHON), "-c", _LOCAL_MODE, image, str(work)]
    with (work / "local-mode.log").open("w") as log:
        process = subprocess.Popen(
            command,
            env={**environ, "AWS_EC2_METADATA_DISABLED": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            yield process
        finally:
            _stream(process.stdin).close()
            process.wait(_LIMIT_SECONDS)
            _stream(process.stdout).close()
            _remove_containers(work)


def _ask(process: subprocess.Popen[str]) -> float:
    _stream(process.stdin).write("go\n")
    _stream(process.stdin).flush()
    answer = _stream(process.stdout).readline()
    if not answer:
        raise CannotMeasure("SDK v2's local mode failed; is Docker Compose there?")
    return float(answer)


def _stream(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise CannotMeasure("no pipe")
    return stream


def _run_bare(image: str, work: Path) -> float:
    """The same script by `docker run` alone: nothing is fetched, packed or kept."""
    mount = f"{work}/source:/mnt:ro"
    command = ["docker", "run", "--rm", "--env", "SM_MODEL_DIR=/tmp", "--volume", mount]
    started = time.monotonic()
    done = subprocess.run(
        [*command, "--entrypoint", "python3", image, "/mnt/train.py"], capture_output=True
    )
    if done.returncode != 0:
        raise CannotMeasure(f"docker run: {done.stderr.decode().strip()}")
    return time.monotonic() - started


def _compose_version() -> str:
    """The first that the SDK accepts: the plugin only if it says v2."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True)
    if "v2" in plugin.stdout:
        return plugin.stdout.strip()
    done = subprocess.run(["docker-compose", "--version"], capture_output=True, text=True)
    return done.stdout.strip()


def _remove_containers(work: Path) -> None:
    """The SDK leaves its containers behind."""
    label = "com.docker.compose.project.working_dir"
    listed = subprocess.run(
        ["docker", "ps", "--all", "--format", f'{{{{.ID}}}} {{{{.Label "{label}"}}}}'],
        capture_output=True,
        text=True,
    ).stdout
    rows = [line.split(" ", 1) for line in listed.splitlines()]
    ours = [row[0] for row in rows if row[-1].startswith(str(work))]
    if ours:
        subprocess.run(["docker", "rm", "--force", "--volumes", *ours], capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
