"""Runs of jobs that were not on this platform: what their containers left as run.json."""

from __future__ import annotations

import math
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stoker.bus.run_file import FILE_NAME, MOST_BYTES, hash_listing, parse_run_file
from stoker.machine.aws import aws_errors, make_session
from stoker.machine.failures import UsageRefused
from stoker.machine.places import open_place
from stoker.metrics.jsonl import parse_lines
from stoker.platform.tracking.job_facts import make_trial_name
from stoker.platform.tracking.tracked import add_experiment, find_or_add, join_trial
from stoker.storage.s3 import S3Prefix, split_uri
from stoker.tracking.records import Artifact, Experiment, Run, RunStatus, Trial
from stoker.tracking.series import MOST_SECONDS, MOST_STEP, Point
from stoker.tracking.store import RecordExists, RunStore

_ARCHIVE = "output.tar.gz"
_METRICS = "metrics.jsonl"
_MOST_METRIC_BYTES = 1 << 30
_STATUSES: Mapping[str, RunStatus] = {
    "Completed": "Completed",
    "Failed": "Failed",
    "Stopped": "Stopped",
}
_BATCH = 50_000
_LONGEST_ERROR = 200
_PART: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("uri", "hash", "hashed", "error", "git_commit"), str),
    **dict.fromkeys(("objects", "bytes"), int),
    "git_dirty": bool,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundRun:
    """One run.json with the metrics next to it."""

    place: str
    content: bytes
    metrics: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What became of one of them."""

    place: str
    run: str = ""
    problem: str = ""
    """Why it is not in the store, or was already."""

    is_known: bool = False


def import_place(store: RunStore, place: str, experiment: str) -> Iterator[Imported]:
    """Every run of a folder, a file or a prefix on S3.

    Raises:
        UsageRefused: there is no such place, or no run in it.
        StorageFailed: S3 refuses.
    """
    count = 0
    for found in find_runs(place):
        count += 1
        yield _import_one(store, found, experiment)
    if not count:
        raise UsageRefused(
            f"{place} has no {FILE_NAME} and no {_ARCHIVE} with one",
            fix="name the output of a job: s3://…/JOB/output, or a folder with run.json",
        )


def find_runs(place: str) -> Iterator[FoundRun]:
    """What a place has. Raises as `import_place`."""
    path = Path(place)
    if path.is_file():
        yield from _read_file(path, place)
        return
    only = ""
    if place.startswith("s3://") and place.endswith((_ARCHIVE, FILE_NAME)):
        place, _, only = place.rpartition("/")
    with open_place(
        place,
        what="a job's output",
        folder=lambda name: _search(Path(name)),
        bucket=partial(_fetch, only=only),
    ) as found:
        yield from found


def _search(folder: Path) -> Iterator[FoundRun]:
    for path in sorted(folder.rglob("*")):
        if path.name in (FILE_NAME, _ARCHIVE) and path.is_file():
            yield from _read_file(path, str(path))


def _fetch(scratch: Path, prefix: S3Prefix, *, only: str) -> Iterator[FoundRun]:
    """Args: only: one object of the prefix; empty for all."""
    wanted = (FILE_NAME, _ARCHIVE, _METRICS)
    for place in prefix.list():
        is_wanted = place.name in (only, _METRICS) if only else True
        if is_wanted and place.is_file and place.name.rpartition("/")[2] in wanted:
            target = scratch / place.name
            target.parent.mkdir(parents=True, exist_ok=True)
            prefix.download(place.name, target)
    for found in _search(scratch):
        name = Path(found.place).relative_to(scratch).as_posix()
        yield replace(found, place=prefix.uri(name))


def _read_file(path: Path, place: str) -> Iterator[FoundRun]:
    if path.name != FILE_NAME and tarfile.is_tarfile(path):
        yield from _read_archive(path, place)
        return
    metrics = path.with_name(_METRICS)
    with path.open("rb") as file:
        content = file.read(MOST_BYTES)
    is_there = metrics.is_file() and metrics.stat().st_size <= _MOST_METRIC_BYTES
    yield FoundRun(place=place, content=content, metrics=metrics.read_bytes() if is_there else b"")


def _read_archive(path: Path, place: str) -> Iterator[FoundRun]:
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                fits = member.isfile() and member.size <= _MOST_METRIC_BYTES
                if name in (FILE_NAME, _METRICS) and fits and name not in contents:
                    opened = archive.extractfile(member)
                    contents[name] = opened.read() if opened else b""
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UsageRefused(
            f"{place} is a damaged archive: {error}", fix="fetch it again"
        ) from error
    if FILE_NAME in contents:
        yield FoundRun(
            place=place, content=contents[FILE_NAME], metrics=contents.get(_METRICS, b"")
        )


def _import_one(store: RunStore, found: FoundRun, experiment: str) -> Imported:
    try:
        facts = parse_run_file(found.content)
        run = make_run(facts)
        points = list(_list_points(facts, found.metrics))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        problem = f"its run.json is damaged: {error}"
        return Imported(place=found.place, problem=problem)
    try:
        with store.transaction():
            store.add(run)
            for first in range(0, len(points), _BATCH):
                store.log(run.name, points[first : first + _BATCH])
            if experiment:
                _join(store, experiment, run.name)
    except RecordExists:
        problem = f"there is a run of this name; to replace it: stoker runs rm {run.name}"
        return Imported(place=found.place, run=run.name, problem=problem, is_known=True)
    if found.place.startswith("s3://"):  # else there may be no credentials
        _add_hashes(store, run)
    return Imported(place=found.place, run=run.name)


def _add_hashes(store: RunStore, run: Run) -> None:
    """What the container does not know of its channels: it lists none of them."""
    inputs = {
        name: {**part, **_hash_input(part["uri"], run.ended or 0.0)} if _is_open(part) else part
        for name, part in run.lineage["inputs"].items()
    }
    lineage = {**run.lineage, "inputs": inputs}
    store.change(Run, run.name, lambda old: replace(old, lineage=lineage))


def _is_open(part: Mapping[str, Any]) -> bool:
    return str(part.get("uri", "")).startswith("s3://") and "hash" not in part


def _hash_input(uri: str, ended: float) -> dict[str, Any]:
    """The hash that the platform makes for its own jobs, of the objects as they are now."""
    bucket, key = split_uri(uri)
    newest = 0.0

    def list_objects() -> Iterator[tuple[str, str, int]]:
        nonlocal newest
        lists = make_session().client("s3").get_paginator("list_objects_v2")
        for page in lists.paginate(Bucket=bucket, Prefix=key):
            for each in page.get("Contents", ()):
                newest = max(newest, each["LastModified"].timestamp())
                yield each["Key"], each["ETag"], each["Size"]

    try:
        found = hash_listing(list_objects())
    except aws_errors() as error:
        return {"error": f"{error}"[:_LONGEST_ERROR]}
    # Another hash than that of another job then does not say that the two had other data.
    return {**found, "hashed": "after a change since the job"} if newest > ended else found


def make_run(facts: Mapping[str, Any]) -> Run:
    """The record of a run.json. Raises KeyError and the like where it does not fit."""
    job = str(facts["job"]) or f"imported-{uuid.uuid4().hex[:8]}"
    started, ended = _read_time(facts["started"]), _read_time(facts["ended"])
    inputs = {str(name): _read_part(part) for name, part in facts.get("inputs", {}).items()}
    image = facts.get("image", {})
    code = {"uri": "", **_read_part({**facts, **facts.get("source_code", {})})}
    return Run(
        name=f"{job}-aws-training-job",
        id=str(facts.get("mlflow_run_id") or uuid.uuid4().hex),
        created=started,
        modified=time.time(),
        status=_STATUSES.get(str(facts["status"]), "Failed"),
        message=str(facts.get("message", "")),
        started=started,
        ended=ended,
        parameters={
            str(name): _read_number(str(text))
            for name, text in facts.get("hyperparameters", {}).items()
        },
        inputs={name: Artifact(uri=part["uri"]) for name, part in inputs.items()},
        source=str(facts.get("arn", "")),
        source_type="SageMakerTrainingJob" if facts.get("arn") else "",
        tags={"stoker.imported": time.strftime("%Y-%m-%d")},
        lineage={
            "job": job,
            "inputs": inputs,
            "image": {"name": str(image.get("name", "")), "digest": ""},
            "source_code": code,
            "packages": {str(k): str(v) for k, v in facts.get("packages", {}).items()},
            "python": str(facts.get("python", "")),
        },
    )


def _read_time(value: Any) -> float:  # noqa: ANN401 - JSON
    seconds = float(value)
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"{seconds} is not a time")
    return seconds


def _read_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """An input or the code: what is known of it, of the types that the comparison expects."""
    return {name: kind(part[name]) for name, kind in _PART.items() if name in part}


def _read_number(text: str) -> str | float:
    plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    try:
        value = float(plain)
    except ValueError:
        return plain
    return value if math.isfinite(value) and plain == text else plain


def _list_points(facts: Mapping[str, Any], lines: bytes) -> Iterator[tuple[str, Point]]:
    """The lines of metrics.jsonl; without them, the last values that run.json has."""
    latest: dict[tuple[str, int], Point] = {}
    for at, step, metrics in parse_lines(lines.decode("utf-8", "replace").splitlines()):
        moment = round(_read_time(at) * 1000)
        for name, value in metrics.items():
            # After a resume the later line of a step counts.
            latest[name, step] = Point(step, moment, value)
    if latest:
        yield from ((name, point) for (name, _), point in latest.items())
        return
    for name, summary in facts.get("metrics", {}).items():
        if summary["last"] is not None:
            moment = round(float(facts["ended"]) * 1000)
            step = int(summary["step"])
            if abs(step) > MOST_STEP:
                raise ValueError(f"step {step} is too large")
            yield str(name), Point(step, moment, float(summary["last"]))


def _join(store: RunStore, experiment: str, run: str) -> None:
    find_or_add(store, Experiment, experiment, lambda: add_experiment(store, experiment))
    now = time.time()
    name = make_trial_name(experiment)
    trial = Trial(name=name, experiment=experiment, created=now, modified=now)
    join_trial(store, find_or_add(store, Trial, name, lambda: trial).name, run)
