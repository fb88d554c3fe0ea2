"""What is done once nothing of a job runs any more: its metrics, and leaving nothing behind."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from stoker.host.platform.around.left_trees import remove_tree
from stoker.host.platform.jobs.metrics import scan_metrics
from stoker.host.platform.jobs.notes import say_once
from stoker.host.platform.jobs.state import Metric
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.request import TrainingRequest
from stoker.host.platform.root import Root

_RESULTS = ("model", "output")


def note_metrics(around: Surroundings, request: TrainingRequest) -> tuple[Metric, ...]:
    """The final metrics, from the stored log; what had to be given up is said there, once."""
    logs = [stream.file for stream in around.streams.streams(request.name)]
    scan = scan_metrics(logs, request.metric_definitions)
    say_once(
        around.streams,
        request,
        *(
            f"metric {name!r} is given up: its regular expression takes too long; "
            "fix: avoid nested repetition such as (a+)+"
            for name in scan.given_up
        ),
    )
    return scan.metrics


def clear_attempt(around: Surroundings, request: TrainingRequest) -> None:
    """Remove the runs and folders of earlier attempts: the next one begins on a fresh disk."""
    for running in around.engine.list_running():
        if running.job == request.name:
            around.engine.remove(running.name)
    job_dir = around.root.job_dir(request.name)
    try:
        _remove_folder(job_dir)
    except PermissionError:  # a container wrote as root, and the server died before this
        around.engine.take_ownership(job_dir, request.image)
        _remove_folder(job_dir)
    job_dir.mkdir(parents=True)


def clear_job(around: Surroundings, request: TrainingRequest) -> None:
    """Remove everything but the log and what was uploaded."""
    clear_attempt(around, request)
    around.engine.remove_network(request.name)
    around.root.job_dir(request.name).rmdir()


def keep_results(root: Root, request: TrainingRequest) -> Path:
    """Put models and output aside that could not be uploaded; returns where.

    Within one file system, so it works on a full disk, too.
    """
    kept = root.kept_dir(request.name)
    for host in request.hosts:
        (kept / host).mkdir(parents=True, exist_ok=True)
        for name in _RESULTS:
            with suppress(FileNotFoundError):  # done before, by a server that was killed
                (root.host_dir(request.name, host) / name).rename(kept / host / name)
    return kept


def _remove_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):
        remove_tree(folder)
