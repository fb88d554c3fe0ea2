"""Metrics of `job.log` for an MLflow tracking server: in batches, by a thread of their own."""

from __future__ import annotations

import logging
import time

from stoker.bus.run_file import RECORDED_VARIABLE
from stoker.metrics.backlog import Backlog
from stoker.storage.mlflow import (
    MOST_METRICS,
    RUN_VARIABLE,
    URI_VARIABLE,
    TrackingRefused,
    TrackingServer,
    clean_name,
    make_metric,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.contract.job import Job

Point = tuple[float, int, "Mapping[str, float]"]
"""Wall time, step, metrics."""

_RETRY_SECONDS = 5.0
_MOST_RETRY_SECONDS = 60.0
_MOST_KEPT = 500_000
_LOG = logging.getLogger("stoker.metrics")


def open_mlflow(job: Job) -> MlflowMetrics | None:
    """None where no server is configured, or where it reads the job's log by itself."""
    uri, run_id = job.environ.get(URI_VARIABLE, ""), job.environ.get(RUN_VARIABLE, "")
    if not uri or not run_id or uri == job.environ.get(RECORDED_VARIABLE):
        return None
    try:
        return MlflowMetrics(TrackingServer(uri, job.environ), run_id)
    except ValueError:
        return None  # the launcher has said so


class MlflowMetrics:
    """Sends metrics to a run; what a server that is down does not take is sent later."""

    def __init__(self, server: TrackingServer, run_id: str) -> None:
        self._server = server
        self._run_id = run_id
        self._kept: list[dict[str, object]] = []
        self._retry_at, self._pause_seconds = 0.0, _RETRY_SECONDS
        self._has_warned = self._is_off = False
        # Never waits for room: metrics.jsonl has what is dropped.
        self._backlog = Backlog(self._send, name="MLflow", patience_seconds=0)
        self.add = self._backlog.add
        self.flush = self._backlog.flush

    def forget(self) -> None:
        """In a forked child: connection and metrics are the parent's."""
        self._backlog.forget()
        self._kept = []
        self._server.close()

    def _send(self, points: list[Point], urgent: bool) -> bool:
        if self._is_off:
            return False
        self._kept += [entry for point in points for entry in make_entries(*point)]
        # A server that is down for hours must not fill the memory of the training.
        if len(self._kept) > _MOST_KEPT:
            self._give_up(f"{len(self._kept)} of them wait")
            return False
        if self._retry_at and not urgent and time.monotonic() < self._retry_at:
            return True
        try:
            while self._kept:
                body = {"run_id": self._run_id, "metrics": self._kept[:MOST_METRICS]}
                self._server.call("runs/log-batch", body)
                # Only what the server has taken: after a failure the rest is sent again.
                del self._kept[:MOST_METRICS]
        except TrackingRefused as refused:
            self._give_up(str(refused))
            return False
        except OSError as error:
            self._wait(error)
            return True
        self._retry_at, self._pause_seconds = 0.0, _RETRY_SECONDS
        return False

    def _wait(self, error: OSError) -> None:
        self._retry_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _MOST_RETRY_SECONDS)
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "MLflow does not take metrics now: %s; training continues, and they are sent "
                "later; metrics.jsonl has them in any case",
                error,
            )

    def _give_up(self, why: str) -> None:
        self._is_off, self._kept = True, []
        _LOG.warning(
            "metrics are not sent to MLflow from now on: %s\n"
            "  fix: output/data/stoker/metrics.jsonl has them all: `stoker runs import` reads it, "
            "and `stoker runs export --mlflow` sends them",
            why,
        )


def make_entries(
    wall_time: float, step: int, metrics: Mapping[str, float]
) -> list[dict[str, object]]:
    """One log call as the REST API has it."""
    time_ms = round(wall_time * 1000)
    return [
        make_metric(clean_name(name), value, time_ms=time_ms, step=step)
        for name, value in metrics.items()
        if name
    ]
