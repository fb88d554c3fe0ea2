"""A script that names its own MLflow experiment, in a job that has a run already.

MLflow refuses to start the run of MLFLOW_RUN_ID when it is in another experiment than the one of
`mlflow.set_experiment`. The local platform moves the job's run there; elsewhere the script gets a
run of its own.
"""

from __future__ import annotations

import os
import sys
from functools import wraps

from stoker.bus.run_file import MOVE_TAG, RECORDED_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RUN = "MLFLOW_RUN_ID"


def watch_experiment() -> None:
    """Called when `mlflow.tracking.fluent` has been imported; mlflow takes its names from it."""
    fluent: Any = sys.modules["mlflow.tracking.fluent"]
    original = fluent.set_experiment

    @wraps(original)
    def set_experiment(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - MLflow's own
        experiment = original(*args, **options)
        try:
            _settle(fluent.MlflowClient(), experiment)
        except Exception as error:  # of MLflow: what it means, its next call says
            print(f"[stoker] warning: the job's MLflow run: {error}", file=sys.stderr)
        return experiment

    fluent.set_experiment = set_experiment


def _settle(client: Any, experiment: Any) -> None:  # noqa: ANN401 - MLflow's own
    environ = os.environ  # noqa: TID251 - what MLflow itself reads, in this very process
    run_id = environ.get(_RUN)
    if not run_id:
        return
    if environ.get(RECORDED_VARIABLE) == environ.get("MLFLOW_TRACKING_URI"):
        client.set_tag(run_id, MOVE_TAG, experiment.name)
    if client.get_run(run_id).info.experiment_id != experiment.experiment_id:
        del environ[_RUN]
        print(
            f"[stoker] the script sets the MLflow experiment {experiment.name!r}, and the job's "
            f"run {run_id} is in another one: MLflow makes a new run",
            file=sys.stderr,
        )
