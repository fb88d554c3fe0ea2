"""Which ended jobs to remove, what of S3 is theirs alone, and how much space that frees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoker.cli.client.platform_api import Api
from stoker.cli.client.processing import ProcessingApi
from stoker.cli.client.watch import is_final
from stoker.platform.model.root import DEFAULT_BUCKET

_SHARED = ("stoker/code/", "stoker/inputs/")
"""Of the default bucket: what several jobs may use."""

_SETTLED_SECONDS = 3600.0
"""Code that was just sent may belong to a job that is just being submitted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """One thing to remove."""

    job: str
    """Its name; empty for code and data that no job uses any more."""

    api: Api
    """What deletes the job: the API of its kind."""

    keys: Mapping[str, int]
    """Objects as `bucket/key` → size in bytes."""

    @property
    def size_bytes(self) -> int:
        return sum(self.keys.values())


def plan_pruning(
    api: Api, *, keep: int, older_seconds: float, now: float | None = None
) -> list[Removal]:
    """What to remove; nothing is done yet.

    Args:
        api: the platform.
        keep: so many of the newest jobs of each kind stay.
        older_seconds: only jobs that ended longer ago go.
        now: seconds since the epoch.
    """
    now = time.time() if now is None else now
    described: dict[tuple[Api, str], dict[str, Any]] = {}
    chosen: list[tuple[Api, str]] = []
    for kind in (api, ProcessingApi.over(api)):
        # The newest first, as `choose_jobs` counts them and as the loop below needs them.
        jobs = list(kind.list_jobs())
        names = choose_jobs(jobs, keep=keep, older_seconds=older_seconds, now=now)
        chosen += [(kind, name) for name in names]
        described |= {
            (kind, j["TrainingJobName"]): kind.describe(j["TrainingJobName"]) for j in jobs
        }
    kept = described.keys() - set(chosen)
    needed = [uri for key in kept for uri in list_needed(described[key])]
    removals = []
    for kind, name in chosen:
        prefixes = list_prefixes(described[kind, name])
        if any(_overlap(prefix, uri) for prefix in prefixes for uri in needed):
            # What a job reads is older than the job, so of its kind it comes later in this loop.
            needed += list_needed(described[kind, name])
            continue  # another job reads from it or continues it
        keys = {
            f"{bucket}/{key}": size
            for prefix in prefixes
            for bucket, key, size, _ in api.list_objects(prefix)
        }
        removals.append(Removal(job=name, api=kind, keys=keys))
    return [*removals, *_plan_shared(api, needed, now)]


def _plan_shared(api: Api, needed: Sequence[str], now: float) -> Iterator[Removal]:
    keys = {
        f"{bucket}/{key}": size
        for shared in _SHARED
        for bucket, key, size, modified in api.list_objects(f"s3://{DEFAULT_BUCKET}/{shared}")
        if now - modified.timestamp() > _SETTLED_SECONDS
        and not any(f"s3://{bucket}/{key}".startswith(uri) for uri in needed)
    }
    if keys:
        yield Removal(job="", api=api, keys=keys)


def choose_jobs(
    jobs: Sequence[Mapping[str, Any]], *, keep: int, older_seconds: float, now: float
) -> list[str]:
    """The names of the jobs to remove. Args: jobs: the newest first."""

    def ended(job: Mapping[str, Any]) -> float:
        moment: datetime = job.get("TrainingEndTime") or job["LastModifiedTime"]
        return moment.timestamp()

    return [
        job["TrainingJobName"]
        for job in jobs[keep:]
        if is_final(job) and now - ended(job) > older_seconds
    ]


def list_prefixes(description: Mapping[str, Any]) -> list[str]:
    """Where a job's results are: the folders in S3 that have its name."""
    job = description["TrainingJobName"]
    places = [
        description.get(config, {}).get("S3OutputPath")
        for config in (
            *("OutputDataConfig", "TensorBoardOutputConfig"),
            *("DebugHookConfig", "ProfilerConfig"),
        )
    ]
    found = [f"{place.rstrip('/')}/{job}/" for place in places if place]
    # Of a processing job, what the SDKs put into its own folder; other places are the user's.
    own = [f"s3://{DEFAULT_BUCKET}/{job}/{part}/" for part in ("input", "source", "output")]
    uris = _list_processing_uris(description)
    found += [prefix for prefix in own if any(f"{uri}/".startswith(prefix) for uri in uris)]
    return list(dict.fromkeys(found))


def _list_processing_uris(description: Mapping[str, Any]) -> list[str]:
    inputs = [each.get("S3Input", {}) for each in description.get("ProcessingInputs", [])]
    outputs = description.get("ProcessingOutputConfig", {}).get("Outputs", [])
    places = [*inputs, *(each.get("S3Output", {}) for each in outputs)]
    return [place["S3Uri"] for place in places if "S3Uri" in place]


def list_needed(description: Mapping[str, Any]) -> list[str]:
    """What a job reads, and where it continues from."""
    channels = (
        channel["DataSource"].get("S3DataSource", {}).get("S3Uri")
        for channel in description.get("InputDataConfig", [])
    )
    checkpoints = description.get("CheckpointConfig", {}).get("S3Uri")
    inputs = (
        each.get("S3Input", {}).get("S3Uri") for each in description.get("ProcessingInputs", [])
    )
    return [uri for uri in (*channels, *inputs, checkpoints) if uri]


def _overlap(prefix: str, uri: str) -> bool:
    return uri.startswith(prefix) or prefix.startswith(uri)
