"""The job's run on a tracking server of the user's, as the launcher sees it."""

from __future__ import annotations

import sys

from stoker.bus.run_file import RECORDED_VARIABLE
from stoker.contract.files import read_regular
from stoker.contract.record import Record
from stoker.errors import LaunchFailed
from stoker.runtime.step import HELPERS, LaunchStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.job import Job
    from stoker.contract.outcome import Outcome
    from stoker.runtime.watch import Watch

_URI, _ID = "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"
_STATUSES = {"success": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class MlflowRun(Record):
    """A run that this job has begun, or continues."""

    id: str
    job: Job
    watch: Watch

    def give_to(self, worker: LaunchStep) -> LaunchStep:
        """The worker with the run in its environment: clients of MLflow continue it."""
        return worker.replace(environ={**worker.environ, _ID: self.id})

    def end(self, outcome: Outcome) -> None:
        """Says how it ended; not after a stop of the platform, which leaves little time."""
        if self.watch.signals.stop_signal is None:
            _run_helper(self.job, self.watch, "end", self.id, _STATUSES[outcome.kind])


def begin_run(job: Job, watch: Watch, folder: str) -> MlflowRun | None:
    """The run of a job that has a tracking server, but no run yet; on the leader only.

    Args:
        job: the job.
        watch: runs the helper that speaks to the server.
        folder: private, for the helper's answer.
    """
    uri = job.environ.get(_URI, "")
    is_given = _ID in job.environ or uri == job.environ.get(RECORDED_VARIABLE)
    if is_given or not job.is_leader or not uri.startswith(("http://", "https://", "arn:")):
        return None
    file = f"{folder}/mlflow_run"
    _run_helper(job, watch, "begin", file)
    try:
        return MlflowRun(id=read_regular(file, 100).decode(), job=job, watch=watch)
    except (OSError, ValueError):
        return None  # the helper has said why


def _run_helper(job: Job, watch: Watch, *arguments: str) -> None:
    # -S: without site-packages it starts quicker; only an ARN needs boto3.
    flags = "-I" if job.environ[_URI].startswith("arn:") else "-IS"
    step = LaunchStep(
        name="MLflow",
        argv=(sys.executable, flags, HELPERS, "mlflow", *arguments),
        environ=job.environ,
        folder="/",
        mask=watch.log.mask,
    )
    try:
        watch.run(step)
    except LaunchFailed as error:
        watch.log.warning(f"there is no MLflow run of this job: {error}")
