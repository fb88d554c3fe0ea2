"""What a job was, left with its output: `run.json` (bus/run_file.py has its schema)."""

from __future__ import annotations

import math
import os
import sys
import time

from stoker.bus.run_file import (
    FILE_NAME,
    FOLDER,
    GIT_VARIABLE,
    SCHEMA,
    hash_folder,
    parse_git,
)
from stoker.contract.files import read_object, read_regular, write_atomically
from stoker.contract.quick_json import dumps, loads
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from stoker.contract.job import Job
    from stoker.contract.outcome import Outcome

_STATUSES = {"success": "Completed", "stopped": "Stopped", "failed": "Failed"}
_METRICS_FILE = "metrics.jsonl"
_MOST_METRIC_BYTES = 8 << 20
"""A longer file is named only: a reader of run.json has it, too."""


def write_run_file(
    job: Job, outcome: Outcome, *, code_dir: str, started: float, mask: Callable[[str], str]
) -> None:
    """Writes the file, on the leader only; a full disk is not an error."""
    if not job.is_leader:
        return
    folder = f"{job.paths.output_data_dir}/{FOLDER}"
    facts = make_run_facts(job, outcome, code_dir=code_dir, started=started, mask=mask)
    try:
        os.makedirs(folder, exist_ok=True)
        # The platform takes it from this very machine, once the job is over.
        write_atomically(f"{folder}/{FILE_NAME}", dumps(facts), outlives_machine=False)
    except OSError:
        return  # the outcome of the job must not change by it


def make_run_facts(
    job: Job, outcome: Outcome, *, code_dir: str, started: float, mask: Callable[[str], str]
) -> dict[str, Any]:
    """All that the container knows."""
    # After a stop every second counts: nothing is read then that may be large.
    describe = _name_only if outcome.kind == "stopped" else hash_folder
    uris, image = _read_request(job)
    return {
        "schema": SCHEMA,
        "job": job.name,
        "arn": job.arn,
        "status": _STATUSES[outcome.kind],
        "message": mask(outcome.reason)[:1024],
        "exit_code": outcome.exit_code,
        "started": started,
        "ended": time.time(),
        "hyperparameters": {k: mask(v) for k, v in job.hyperparameters.raw.items()},
        "hosts": list(job.cluster.hosts),
        "instance_type": job.cluster.instance_type,
        "inputs": {
            # Not listed: a channel may have millions of files, and the launcher reads none.
            channel.name: {"uri": uris.get(channel.name, "")}
            for channel in job.channels
            if channel.input_mode == "File"
        },
        "outputs": {"model": describe(job.paths.model_dir)},
        "metrics_file": _METRICS_FILE,
        "metrics": _summarise(f"{job.paths.output_data_dir}/{FOLDER}/{_METRICS_FILE}"),
        "image": {"name": image},
        "source_code": describe(code_dir),
        **parse_git(job.environ.get(GIT_VARIABLE, "")),
        "mlflow_run_id": job.environ.get("MLFLOW_RUN_ID", ""),
        "python": sys.version.split()[0],
        "packages": dict(sorted(_list_packages())),
    }


def _name_only(_folder: str) -> dict[str, Any]:
    return {}


def _read_request(job: Job) -> tuple[dict[str, str], str]:
    """Addresses of the channels and name of the image, where the platform tells them."""
    try:
        request = read_object(job.paths.config_file("trainingjobconfig.json"))
        uris = {
            each["ChannelName"]: each["DataSource"]["S3DataSource"]["S3Uri"]
            for each in request.get("InputDataConfig", [])
            if "S3DataSource" in each["DataSource"]
        }
        return uris, str(request.get("AlgorithmSpecification", {}).get("TrainingImage", ""))
    except (ConfigInvalid, KeyError, TypeError, AttributeError):
        return {}, ""


def _summarise(path: str) -> dict[str, dict[str, float | None]]:
    """Each metric of `job.log` in a few numbers; of a resumed job the later line counts."""
    try:
        if os.path.getsize(path) > _MOST_METRIC_BYTES:
            return {}
        lines = read_regular(path).splitlines()
    except OSError:
        return {}
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        try:
            entry = loads(line.decode())
            for name, value in entry["metrics"].items():
                found.setdefault(name, {})[int(entry["step"])] = float(value)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # cut by the end of an attempt
    return {name: _describe(points) for name, points in found.items()}


def _describe(points: dict[int, float]) -> dict[str, float | None]:
    finite = [value for value in points.values() if math.isfinite(value)]
    step = max(points)
    last = points[step]
    return {
        "count": len(points),
        "min": min(finite, default=None),
        "max": max(finite, default=None),
        "last": last if math.isfinite(last) else None,  # JSON has no other numbers
        "step": step,
    }


def _list_packages() -> Iterator[tuple[str, str]]:
    """Name and version of all that is installed, by the names of folders: no file is read."""
    for place in dict.fromkeys((*sys.path, f"{os.path.dirname(os.__file__)}/site-packages")):
        for name in os.listdir(place) if place and os.path.isdir(place) else ():
            stem, is_distribution, _ = name.partition(".dist-info")
            package, _, version = stem.rpartition("-")
            if is_distribution and package:
                yield package.lower().replace("_", "-"), version
