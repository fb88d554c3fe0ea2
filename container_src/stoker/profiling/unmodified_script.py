"""Traces of a script that was not changed: its steps are those of its first optimizer."""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import TYPE_CHECKING, Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from stoker.contract.job import Job, read_job
from stoker.profiling.window import VARIABLE, Window, read_request

if TYPE_CHECKING:
    from stoker.profiling.traces import Traces
    from stoker.profiling.window import Place

_LOG = logging.getLogger(__name__)


def watch_steps() -> None:
    """Counts optimizer steps from now on. Called while torch is still being imported."""
    register_optimizer_step_post_hook(StepWatch().after_step)


class StepWatch:
    """Opens the traces shortly before their first step, and tells them of each step."""

    def __init__(self) -> None:
        self._step = 0
        """The one that runs now, counted from 0."""

        self._optimizer: weakref.ref[Optimizer] | None = None
        self._request: tuple[Job, Window, Place] | None = None
        self._traces: Traces | None = None
        self._is_over = False

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """Never raises. The hook stays: torch does not bear one that goes while it is called."""
        if self._is_over:
            return
        try:
            self._count(optimizer)
        except Exception as error:  # a profile is never worth a training
            _LOG.warning("no profiler traces, training continues: %s", error)
            self._is_over = True

    def _count(self, optimizer: Optimizer) -> None:
        # One of several optimizers counts: a step of training has one step of each.
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)
        elif self._optimizer() is not optimizer:
            return
        self._step += 1
        if self._traces is not None:
            self._traces.step()
            self._is_over = self._traces.is_over
            return
        # Read now: of the many processes that import torch, those that train need it.
        self._request = self._request or _read_request()
        job, window, place = self._request
        if self._step >= window.skip_first - 1:
            self._open(job, window, place)

    def _open(self, job: Job, window: Window, place: Place) -> None:
        # Not at the top: torch is not ready for it when this module is imported.
        from stoker.profiling.traces import make_traces

        self._traces = make_traces(job, window, to=place, first_step=self._step)
        self._traces.__enter__()
        atexit.register(self._traces.close)  # the script may end within the window


def _read_request() -> tuple[Job, Window, Place]:
    job = read_job()
    window, place = read_request(job.environ.get(VARIABLE, ""))
    return job, window, place
