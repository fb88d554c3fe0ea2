"""One call for everything that reads metrics: TensorBoard, metrics.jsonl, stdout, SageMaker."""

from __future__ import annotations

import sys
import time
from typing import SupportsFloat

from stoker.metrics.backlog import Backlog
from stoker.metrics.jsonl import make_json_line, make_jsonl_sink, metrics_file
from stoker.metrics.lines import make_line
from stoker.metrics.numbers import keep_number
from stoker.metrics.outlet import Outlet
from stoker.metrics.ranks import rank_name
from stoker.metrics.runs import open_run
from stoker.metrics.stops import flush_at_stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import SupportsInt

    from stoker.contract.job import Job
    from stoker.metrics.event_file import EventFile
    from stoker.metrics.sagemaker import TrialMetrics

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
        self._trial: TrialMetrics | None = None
        path = metrics_file(job)
        self._lines = Outlet(lambda: make_jsonl_sink(path), name=path)
        self._backlog: Backlog[Entry] = Backlog(self._write, name="metrics")
        flush_at_stop(self)

    def add(
        self, step: SupportsInt, metrics: Mapping[str, SupportsFloat], *, all_ranks: bool
    ) -> None:
        """Logs metrics of one step; only on the first rank unless `all_ranks`.

        Raises:
            TypeError: a value is not one number.
        """
        if self._is_reporter or all_ranks:
            whole = step if type(step) is int else _as_int(step)
            kept = {name: keep_number(value) for name, value in metrics.items()}
            self._backlog.add((time.time(), whole, kept))

    def flush(self, timeout_seconds: float = 60.0) -> None:
        """Waits until everything that was logged is on file and sent."""
        self._backlog.flush(timeout_seconds)
        if self._events:
            self._events.stream.flush(timeout_seconds)
        if self._trial:
            self._trial.flush(timeout_seconds)

    def forget(self) -> None:
        """In a forked child: what was logged is the parent's."""
        self._lines.forget()
        self._backlog.forget()
        if self._trial:
            self._trial.forget()

    def _write(self, entries: list[Entry], urgent: bool) -> bool:
        points = [(at, step, _as_floats(metrics)) for at, step, metrics in entries]
        for at, step, metrics in points:
            self._send(at, step, metrics)
        if self._is_reporter:
            _print("".join(make_line(step, metrics) for _, step, metrics in points))
        lines = b"".join(make_json_line(*point) for point in points)
        return self._lines.put(lines, urgent=urgent)

    def _send(self, at: float, step: int, metrics: Mapping[str, float]) -> None:
        if self._events is None:
            self._open()
            assert self._events is not None  # noqa: S101 - for the type checker
        for name, value in metrics.items():
            self._events.stream.add_scalar((at, step, name, value))
        if self._trial is not None:
            self._trial.add((at, step, metrics))

    def _open(self) -> None:
        self._events = open_run(self._job)
        if self._job.arn and self._is_reporter:
            # boto3 costs a third of a second, and on a laptop there is nothing to send to.
            from stoker.metrics.sagemaker import TrialMetrics

            self._trial = TrialMetrics(self._job)


def _as_int(step: SupportsInt) -> int:
    try:
        return int(step)
    except (TypeError, ValueError):
        raise TypeError(f"{step!r:.80} is no step: give the number of it") from None


def _as_floats(metrics: Mapping[str, SupportsFloat]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _print(lines: str) -> None:
    try:
        sys.stdout.write(lines)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        return  # closed, or none at all: the other places have the metrics
