"""The job's run on an MLflow server: found or made before the script starts, ended after it.

Run as a helper: `mlflow begin FILE` writes the run's id into a file, `mlflow end ID STATUS`.
"""

from __future__ import annotations

import signal
import sys

from stoker.contract.files import write_atomically
from stoker.contract.job import read_job
from stoker.contract.secrets import Masker
from stoker.storage.mlflow import (
    URI_VARIABLE,
    TrackingRefused,
    TrackingServer,
    end_run,
    find_run,
)

_MOST_SECONDS = 30
"""For everything: a job must not wait for a server that is silent."""


def main(argv: list[str]) -> int:
    """Says in the log what does not work; the job runs in any case."""
    # Without a handler SIGALRM ends the process, also inside of a name look-up in C.
    signal.alarm(_MOST_SECONDS)
    try:
        if argv[0] == "begin":
            _begin(argv[1])
        else:
            _end(argv[1], argv[2])
    except (TrackingRefused, OSError, ValueError, KeyError) as error:
        lost = "its metrics are in output/data/stoker/metrics.jsonl"
        print(
            f"[stoker] warning: MLflow does not take this job's run: {error}; the job continues, "
            f"{lost}\n  fix: see that {URI_VARIABLE} and its login are right, and that the server "
            "answers this machine",
            file=sys.stderr,
        )
        return 1
    return 0


def _begin(file: str) -> None:
    job = read_job()
    mask = Masker(job.environ, job.hyperparameters.raw)
    run_id = find_run(
        TrackingServer(job.environ[URI_VARIABLE], job.environ),
        experiment=job.environ.get("MLFLOW_EXPERIMENT_NAME", ""),
        name=job.environ.get("MLFLOW_RUN_NAME") or job.name,
        job=job.arn or job.name,
        params={name: mask(text) for name, text in job.hyperparameters.user().items()},
    )
    write_atomically(file, run_id)


def _end(run_id: str, status: str) -> None:
    job = read_job()
    server = TrackingServer(job.environ[URI_VARIABLE], job.environ)
    end_run(server, run_id, status)
