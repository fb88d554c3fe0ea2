"""A real S3 server on a temporary root, and requests to run against it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

from stoker.machine.processes import with_variable
from stoker.platform.data.storage import Storage
from stoker.platform.model.request import TrainingRequest, read_request
from stoker.platform.model.root import DEFAULT_BUCKET, open_root, read_credentials
from stoker.platform.s3.process import S3Server

BUCKET = DEFAULT_BUCKET
DEADLINE_SECONDS = 120


class World:
    """One root with its S3, and the folder of one job in it."""

    def __init__(self, folder: Path) -> None:
        self.root = open_root(folder)
        self.server = S3Server.start(self.root)
        self.has_s3 = True
        self.storage = Storage(f"http://127.0.0.1:{self.server.port}", read_credentials(self.root))
        self.job_dir = self.root.job_dir("job")

    def host_dir(self, host: str = "algo-1") -> Path:
        folder = self.root.host_dir("job", host)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def put(self, key: str, content: bytes | str = "content") -> str:
        place = uri(key)
        self.storage.upload(
            BytesIO(content if isinstance(content, bytes) else content.encode()), place
        )
        return place

    def end_s3(self) -> None:
        """Ends S3 although a job has a folder."""
        self.has_s3 = False
        self.server.stop()
        for pid in with_variable("STOKER_S3_ROOT", str(self.root.folder)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not with_variable("STOKER_S3_ROOT", str(self.root.folder)), "S3 ends")

    def object_file(self, key: str) -> Path:
        return self.root.s3_dir / BUCKET / key

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Name below the prefix → content."""
        folder = self.object_file(prefix)
        files = (file for file in folder.rglob("*") if file.is_file())
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@contextmanager
def running_world(folder: Path) -> Iterator[World]:
    world = World(folder)
    try:
        yield world
    finally:
        world.storage.close()
        # As after a job: S3 stays up for a job that still has a folder.
        shutil.rmtree(world.root.jobs_dir, ignore_errors=True)
        if world.has_s3:
            world.server.stop()


def uri(key: str) -> str:
    return f"s3://{BUCKET}/{key}"


def s3_channel(name: str, place: str, *, mode: str = "File", **source: object) -> dict:
    channel = {k: source.pop(k) for k in list(source) if not k.startswith(("S3", "Attr", "Inst"))}
    s3 = {"S3DataType": "S3Prefix", "S3Uri": place, **source}
    return {"ChannelName": name, "InputMode": mode, "DataSource": {"S3DataSource": s3}, **channel}


def make_request(*channels: dict, hosts: int = 1, **more: object) -> TrainingRequest:
    raw = {
        "TrainingJobName": "job",
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::000000000000:role/any",
        "OutputDataConfig": {"S3OutputPath": uri("out/")},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": hosts,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        **more,
    }
    return read_request({**raw, "InputDataConfig": list(channels)} if channels else raw)


def read_tree(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def wait_for(fact, what: str):
    """Waits until a fact is true, and returns it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := fact()):
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)
    return found
