"""What the hosts of a job find in their environment to reach tracking, and their own run."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.bus.run_file import RECORDED_VARIABLE
from stoker.platform.model.processing_request import PREFIX
from stoker.platform.model.request import TrainingRequest
from stoker.platform.model.root import Credentials
from stoker.platform.tracking.jobs_as_runs import JobRecorder

TRACKING_URI = "MLFLOW_TRACKING_URI"


def make_variables(
    recorder: JobRecorder,
    credentials: Credentials,
    endpoint: str,
    request: TrainingRequest,
    host: str,
) -> Mapping[str, str]:
    """The platform's API and its MLflow face; on the leader also the run that the job is.

    It is the same run in each attempt. A request with a tracking server of its own gets nothing
    of MLflow: ids of runs here mean nothing there.
    """
    variables = {"AWS_ENDPOINT_URL": endpoint, RECORDED_VARIABLE: endpoint}
    if request.environment.get(TRACKING_URI, endpoint) != endpoint:
        return variables
    variables |= {
        TRACKING_URI: endpoint,
        "MLFLOW_TRACKING_USERNAME": credentials.access_key,
        "MLFLOW_TRACKING_PASSWORD": credentials.secret_key,
        "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": endpoint,
    }
    run = recorder.find_run(request.name.replace(PREFIX, "processing/"))
    if run is None:
        return variables
    variables["MLFLOW_EXPERIMENT_NAME"] = recorder.find_experiment(run)
    # On one host only: several that log the same values would multiply them.
    if host == request.hosts[0]:
        variables |= {"MLFLOW_RUN_ID": run.id, "MLFLOW_RUN_NAME": run.title or run.name}
    return variables
