"""Attaches the recorder to a script that was not changed, as the job asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from stoker.contract.job import Job, read_job
from stoker.contract.profiler import (
    ProfilerSettings,
    config_file,
    read_profiler_settings,
    read_profiler_settings_again,
)
from stoker.contract.rank import read_rank
from stoker.profiling.steps import step_timer
from stoker.profiling.steps.facts import Process
from stoker.profiling.steps.loaders import watch_loaders
from stoker.profiling.steps.recorder import StepRecorder


def record_steps(listen: Callable[[Callable[..., Any]], object]) -> StepRecorder | None:
    """Records the steps of this process from now on; None if the job does not ask for it.

    Args:
        listen: has its argument called at the beginning of each outermost call of a module.
    """
    job = read_job()
    settings = read_profiler_settings(job)
    if not settings.steps:
        return None
    rank = read_rank(job.environ)
    process = Process(
        job.cluster.current_host,
        rank.number if rank is not None else 0,
        rank.count if rank is not None else 1,
        is_launched=rank is not None,
    )
    recorder = StepRecorder(settings, process, refresh=Refresh(job, settings))
    recorder.attach()
    watch_loaders(recorder)
    torch.autograd.backward = recorder.backward(torch.autograd.backward)
    torch.save = recorder.timed(step_timer.CHECKPOINT, torch.save)
    if torch.cuda.is_available():
        watch_transfers(recorder)
    listen(recorder.enter_module)
    return recorder


def watch_transfers(recorder: StepRecorder) -> None:
    """Times the copies to the accelerator that a script asks for."""
    tensor: Any = torch.Tensor
    for name in ("to", "cuda"):
        setattr(tensor, name, recorder.timed(step_timer.TRANSFER, getattr(tensor, name)))


class Refresh:
    """The settings as profilerconfig.json has them now."""

    def __init__(self, job: Job, settings: ProfilerSettings) -> None:
        self._job = job
        self._settings = settings
        self._file = config_file(job.paths, job.environ)
        self._state = self._look()

    def __call__(self) -> ProfilerSettings:
        state = self._look()
        if state != self._state:
            self._state = state
            self._settings = read_profiler_settings_again(self._job.paths, self._job.environ)
        return self._settings

    def _look(self) -> tuple[int, int]:
        try:
            status = os.stat(self._file)
        except OSError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns
