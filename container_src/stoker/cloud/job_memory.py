"""The jobs that were sent from this machine: so that `stoker logs JOB` knows where JOB is."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stoker.contract.files import write_atomically


@dataclass(frozen=True, kw_only=True, slots=True)
class SentJob:
    """One submission."""

    name: str
    region: str
    endpoint: str
    """AWS_ENDPOINT_URL at that time; empty for AWS itself."""
    kind: str
    """training, tuning or queued."""
    script: str
    """The file of this machine: many projects have a train.py."""
    machines: Mapping[str, int]
    created: float = field(default_factory=time.time)
    queue_job: str = ""
    """The id that AWS Batch gave it."""
    billable_seconds: float | None = None
    """Of one instance, when its end was seen."""
    params_hash: str = ""
    """Of its hyperparameters, which may be secrets themselves."""


def hash_params(request: Mapping[str, Any]) -> str:
    """Of the hyperparameters of a request."""
    params = json.dumps(request.get("HyperParameters", {}), sort_keys=True)
    return hashlib.sha256(params.encode()).hexdigest()


def cloud_folder() -> Path:
    """Where Stoker keeps what it knows about the cloud; it need not exist."""
    return Path.home() / ".stoker/cloud"


def remember(job: SentJob, *, folder: Path | None = None) -> None:
    """Keep it; a machine without a place for it loses only the convenience."""
    file = (folder or cloud_folder() / "jobs") / f"{job.name}.json"
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(file), json.dumps(asdict(job)))


def recall(name: str, *, folder: Path | None = None) -> SentJob | None:
    """The submission of that name; None if it was not sent from here."""
    return _read((folder or cloud_folder() / "jobs") / f"{name}.json")


def find_similar(
    script: str, machines: Mapping[str, int], *, folder: Path | None = None
) -> SentJob | None:
    """The newest job of the same script on the same machines whose end was seen."""
    jobs = (job for job in _read_all(folder or cloud_folder() / "jobs") if job.billable_seconds)
    same = [job for job in jobs if job.script == script and dict(job.machines) == dict(machines)]
    return max(same, key=lambda job: job.created, default=None)


def _read_all(folder: Path) -> Iterator[SentJob]:
    for file in folder.glob("*.json"):
        if job := _read(file):
            yield job


def _read(file: Path) -> SentJob | None:
    # A damaged file, or one of another version, is as good as none.
    with suppress(OSError, ValueError, TypeError):
        return SentJob(**json.loads(file.read_text()))
    return None
