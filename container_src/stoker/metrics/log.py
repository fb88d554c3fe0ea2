"""One call for everything that reads metrics: TensorBoard, metrics.jsonl, stdout, SageMaker."""

from __future__ import annotations

import sys
import time
from typing import SupportsFloat

from stoker.bus.metric_line import make_line
from stoker.bus.run_file import RECORDED_VARIABLE
from stoker.contract.process_end import Stage, at_end
from stoker.metrics.backlog import Backlog
from stoker.metrics.jsonl import make_json_line, make_jsonl_sink, metrics_file
from stoker.metrics.numbers import keep_number
from stoker.metrics.outlet import Outlet
from stoker.metrics.ranks import rank_name
from stoker.metrics.runs import open_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import SupportsInt

    from stoker.contract.job import Job
    from stoker.metrics.aws import TrialMetrics
    from stoker.metrics.event_file import EventFile
    from stoker.metrics.mlflow import MlflowMetrics

Entry = tuple[float, int, "Mapping[str, SupportsFloat]"]
"""Wall time, step, metrics whose numbers may still be on a device."""

_LOGS: dict[tuple[str, str], Log] = {}


def open_log(job: Job) -> Log:
    """The log of a job in this process, made at the first call."""
    key = (job.paths.root, job.services.tensorboard_dir)
    log = _LOGS.get(key)
    if log is None:
        log = _LOGS[key] = Log(job)
    return log


class Log:
    """Hands metrics to a thread, which writes them everywhere. Only the first rank prints."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_reporter = not rank_name(job)
        self._events: EventFile | None = None
        self._remotes: list[TrialMetrics | MlflowMetrics] | None = None
        path = metrics_file(job)
        self._lines = Outlet(lambda: make_jsonl_sink(path), name=path)
        self._backlog: Backlog[Entry] = Backlog(self._write, name="metrics")
        at_end(self.flush, forget=self.forget, stage=Stage.OUTLET, at_stop=True)

    def add(
        self, step: SupportsInt, metrics: Mapping[str, SupportsFloat], *, all_ranks: bool
    ) -> None:
        """Logs metrics of one step; only on the first rank unless `all_ranks`.

        Raises:
            TypeError: a value is not one number.
        """
        if not self._is_reporter and not all_ranks:
            return
        if self._events is None:
            self._open()
        whole = step if type(step) is int else _as_int(step)
        # Most are floats, which need no call.
        kept = {n: v if type(v) is float else keep_number(v) for n, v in metrics.items()}
        self._backlog.add((time.time(), whole, kept))

    def flush(self, timeout_seconds: float = 60.0) -> None:
        """Waits until everything that was logged is on file and sent."""
        self._backlog.flush(timeout_seconds)
        if self._events is not None:
            self._events.stream.flush(timeout_seconds)
        for remote in self._remotes or ():
            remote.flush(timeout_seconds)

    def forget(self) -> None:
        """In a forked child: what was logged is the parent's."""
        self._lines.forget()
        self._backlog.forget()
        for remote in self._remotes or ():
            remote.forget()

    def _open(self) -> None:
        self._events = open_run(self._job)
        if self._job.arn:
            # boto3 needs it, and it can no longer be imported at the end of a short script.
            import concurrent.futures.thread  # noqa: F401

    def _write(self, entries: list[Entry], urgent: bool) -> bool:
        points = [(at, step, _as_floats(metrics)) for at, step, metrics in entries]
        if not points:
            return self._lines.put(None, urgent=urgent)
        self._send(points)
        owes = self._lines.put(b"".join(make_json_line(*p) for p in points), urgent=urgent)
        if self._is_reporter:
            # Last: a log reader that has stopped reading holds this thread here.
            _print("".join(make_line(step, metrics) for _, step, metrics in points))
        return owes

    def _send(self, points: list[tuple[float, int, dict[str, float]]]) -> None:
        if self._events is not None:
            add = self._events.stream.add_scalar
            for at, step, metrics in points:
                for name, value in metrics.items():
                    add((at, step, name, value))
        if not self._is_reporter:
            return
        if self._remotes is None:
            self._remotes = list(self._open_remotes())
        for remote in self._remotes:
            for point in points:
                remote.add(point)

    def _open_remotes(self) -> Iterator[TrialMetrics | MlflowMetrics]:
        environ = self._job.environ
        # The local platform reads what is printed.
        if self._job.arn and not environ.get(RECORDED_VARIABLE):
            # boto3 costs a third of a second, and outside SageMaker there is no receiver.
            from stoker.metrics.aws import TrialMetrics

            yield TrialMetrics(self._job)
        if environ.get("MLFLOW_TRACKING_URI"):
            from stoker.metrics.mlflow import open_mlflow

            mlflow = open_mlflow(self._job)
            if mlflow is not None:
                yield mlflow


def _as_int(step: SupportsInt) -> int:
    try:
        return int(step)
    except (TypeError, ValueError):
        raise TypeError(f"{step!r:.80} is not a step: pass the step's number") from None


def _as_floats(metrics: Mapping[str, SupportsFloat]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _print(lines: str) -> None:
    try:
        sys.stdout.write(lines)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        return  # closed, or none at all: the other places have the metrics
