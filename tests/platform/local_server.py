"""The real server as a process on a temporary root, and what a client does with it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

import stoker
from stoker.platform.engines.engine import root_id
from stoker.platform.model.root import DEFAULT_BUCKET, REGION, Root, read_server_info

DEADLINE_SECONDS = 240
GROUP = "/aws/sagemaker/TrainingJobs"
ROLE = "arn:aws:iam::000000000000:role/any"
ENDED = ("Completed", "Stopped", "Failed")
_PACKAGE = Path(stoker.__file__).parents[1]


def wait_until(fact: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS) -> Any:
    """Waits for a fact; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.05)
    return found


class LocalServer:
    """One root; its server may be started, killed and started again."""

    def __init__(self, folder: Path, engine: str = "process", slots: int = 4) -> None:
        self.root = Root(folder)
        self.engine = engine
        self.slots = slots
        self.image = "stoker:cpu" if engine == "docker" else "any/image:1"
        self.environment: dict[str, str] = {"STOKER_GRACE_SECONDS": "100"}
        """Beside the test's own."""
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: dict[str, Any] = {}

    # ---- the server

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "stoker.platform"),
            *("--root", str(self.root.folder), "--port", "0"),
            *("--engine", self.engine, "--slots", str(self.slots)),
        ]

    def start(self, **environment: str) -> LocalServer:
        """Starts it and waits until it is ready."""
        self.root.folder.mkdir(parents=True, exist_ok=True)
        self.root.server_file.unlink(missing_ok=True)  # of a server that was killed
        self._clients.clear()
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environ(**environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_ready, f"the server is ready; it said:\n{self.log_file.read_text()}")
        return self

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_SECONDS)
        self.process = None

    def stop(self) -> None:
        """A clean end; what runs goes on."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(DEADLINE_SECONDS) == 0, self.log_file.read_text()
            self.process = None

    def end(self) -> None:
        """Ends the server and whatever its jobs have left running, for the next test's sake."""
        if self.process is None:
            if not self.root.database.exists():
                return
            self.start()
        # First those that would start further training jobs.
        tuning = self.boto("sagemaker").list_hyper_parameter_tuning_jobs(
            StatusEquals="InProgress", MaxResults=100
        )
        for job in tuning["HyperParameterTuningJobSummaries"]:
            name = job["HyperParameterTuningJobName"]
            self.boto("sagemaker").stop_hyper_parameter_tuning_job(
                HyperParameterTuningJobName=name
            )
        for job in self.boto("sagemaker").list_training_jobs(MaxResults=100)[
            "TrainingJobSummaries"
        ]:
            if job["TrainingJobStatus"] == "InProgress":
                self.boto("sagemaker").stop_training_job(TrainingJobName=job["TrainingJobName"])
        for job in self.boto("sagemaker").list_training_jobs(MaxResults=100)[
            "TrainingJobSummaries"
        ]:
            self.wait(job["TrainingJobName"])
        self.stop()

    @property
    def log_file(self) -> Path:
        return self.root.folder.with_name(f"{self.root.folder.name}.said")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended:\n{self.log_file.read_text()}"
        found = read_server_info(self.root)
        return found is not None and found.pid == self.process.pid

    def environ(self, **more: str) -> dict[str, str]:
        """What a server is started with; nothing of AWS or Stoker comes from the tester's own."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "STOKER_"))}
        path = os.pathsep.join(filter(None, [str(_PACKAGE), clean.get("PYTHONPATH", "")]))
        return {**clean, "PYTHONPATH": path, **self.environment, **more}

    # ---- its clients

    @property
    def endpoint(self) -> str:
        found = read_server_info(self.root)
        assert found is not None
        return found.endpoint

    def sdk_environ(self) -> dict[str, str]:
        """The variables that point stock code at it, as `stoker local env` prints them."""
        keys = json.loads(self.root.credentials_file.read_text())
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": keys["access_key"],
            "AWS_SECRET_ACCESS_KEY": keys["secret_key"],
            "AWS_DEFAULT_REGION": REGION,
            "SAGEMAKER_USER_CONFIG_OVERRIDE": str(self.root.sdk_config_file),
        }

    def boto(self, service: str) -> Any:
        """A stock client."""
        if service not in self._clients:
            keys = json.loads(self.root.credentials_file.read_text())
            self._clients[service] = boto3.session.Session().client(
                service,
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=keys["access_key"],
                aws_secret_access_key=keys["secret_key"],
                config=Config(retries={"max_attempts": 1}, read_timeout=DEADLINE_SECONDS),
            )
        return self._clients[service]

    def put(self, key: str, content: bytes | str, bucket: str = DEFAULT_BUCKET) -> str:
        """An object; returns its address."""
        body = content.encode() if isinstance(content, str) else content
        self.boto("s3").put_object(Bucket=bucket, Key=key, Body=body)
        return f"s3://{bucket}/{key}"

    def get(self, uri: str) -> bytes:
        """An object's content."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return self.boto("s3").get_object(Bucket=bucket, Key=key)["Body"].read()

    def keys(self, prefix: str = "", bucket: str = DEFAULT_BUCKET) -> list[str]:
        pages = self.boto("s3").get_paginator("list_objects_v2")
        return [
            found["Key"]
            for page in pages.paginate(Bucket=bucket, Prefix=prefix)
            for found in page.get("Contents", [])
        ]

    def archive(self, uri: str) -> dict[str, bytes]:
        """The files of a .tar.gz in S3."""
        with tarfile.open(fileobj=io.BytesIO(self.get(uri))) as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            return {m.name.removeprefix("./"): archive.extractfile(m).read() for m in members}

    # ---- jobs

    def request(self, name: str, script: str = "print('hello')", **parts: Any) -> dict[str, Any]:
        """A request; the script comes by the channel `code`, as a user's would."""
        code = self.put(f"code/{name}/train.py", textwrap.dedent(script))
        parts = dict(parts)
        hyperparameters = {"sagemaker_program": "train.py", **parts.pop("HyperParameters", {})}
        algorithm = {"TrainingImage": self.image, "TrainingInputMode": "File"}
        resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
        return {
            "TrainingJobName": name,
            "RoleArn": ROLE,
            "AlgorithmSpecification": {**algorithm, **parts.pop("AlgorithmSpecification", {})},
            "HyperParameters": hyperparameters,
            "InputDataConfig": [
                channel("code", code.removesuffix("train.py")),
                *parts.pop("InputDataConfig", []),
            ],
            "OutputDataConfig": {"S3OutputPath": f"s3://{DEFAULT_BUCKET}/out"},
            "ResourceConfig": {**resources, **parts.pop("ResourceConfig", {})},
            "StoppingCondition": {
                "MaxRuntimeInSeconds": 600,
                **parts.pop("StoppingCondition", {}),
            },
            **parts,
        }

    def submit(self, name: str, script: str = "print('hello')", **parts: Any) -> str:
        """CreateTrainingJob."""
        self.boto("sagemaker").create_training_job(**self.request(name, script, **parts))
        return name

    def describe(self, name: str) -> dict[str, Any]:
        return self.boto("sagemaker").describe_training_job(TrainingJobName=name)

    def wait(self, name: str) -> dict[str, Any]:
        """DescribeTrainingJob of a job that has ended."""
        return self.wait_for(name, lambda job: job["TrainingJobStatus"] in ENDED)

    def wait_for(self, name: str, fact: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def look() -> dict[str, Any] | None:
            seen.update(self.describe(name))
            return seen if fact(seen) else None

        try:
            return wait_until(look, f"the state of {name}")
        except AssertionError as error:
            said = self.log_file.read_text()[-4000:]
            raise AssertionError(f"{error}: {seen}\nthe server said:\n{said}") from error

    def wait_for_secondary(self, name: str, status: str) -> dict[str, Any]:
        return self.wait_for(name, lambda job: job["SecondaryStatus"] == status)

    def wait_for_line(self, name: str, text: str) -> None:
        wait_until(lambda: any(text in line for line in self.log(name)), f"{text!r} in the log")

    def log(self, name: str, host: str = "algo-1") -> list[str]:
        """The lines of a host's log, by the API."""
        logs = self.boto("logs")
        streams = logs.describe_log_streams(
            logGroupName=GROUP, logStreamNamePrefix=f"{name}/{host}-"
        )["logStreams"]
        if not streams:
            return []
        lines: list[str] = []
        where = {"logGroupName": GROUP, "logStreamName": streams[0]["logStreamName"]}
        page = logs.get_log_events(**where, startFromHead=True)
        while page["events"]:
            lines += [event["message"] for event in page["events"]]
            page = logs.get_log_events(**where, nextToken=page["nextForwardToken"])
        return lines

    # ---- what is left

    def leftovers(self) -> list[str]:
        """Everything of ended jobs that is not gone within a while."""
        found = self._find_leftovers()
        deadline = time.monotonic() + 60
        while found and time.monotonic() < deadline:
            time.sleep(0.1)
            found = self._find_leftovers()
        return found

    def _find_leftovers(self) -> list[str]:
        jobs = [path.name for path in self.root.jobs_dir.iterdir()]
        runs = [path.name for path in (self.root.folder / "processes").glob("*")]
        return [*jobs, *runs, *(self._docker_leftovers() if self.engine == "docker" else [])]

    def _docker_leftovers(self) -> list[str]:
        label = f"label=stoker.root={root_id(self.root.folder)}"
        kinds = (("ps", "-aq"), ("network", "ls", "-q"), ("volume", "ls", "-q"))
        return [
            line
            for kind in kinds
            for line in subprocess.check_output(
                ["docker", *kind, "--filter", label], text=True
            ).split()
        ]


def channel(name: str, uri: str, **parts: Any) -> dict[str, Any]:
    """One entry of InputDataConfig."""
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **parts}


def statuses(job: dict[str, Any]) -> list[str]:
    """The secondary statuses a job went through."""
    return [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
