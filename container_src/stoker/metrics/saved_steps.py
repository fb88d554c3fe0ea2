"""What the debugger's hook saves, in TensorBoard: a run for each mode, as smdebug has it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from stoker.contract.job import Job
from stoker.metrics.event_file import EventFile
from stoker.metrics.events import make_histogram as encode_histogram
from stoker.metrics.histogram import make_histogram
from stoker.metrics.ranks import run_dir


class Step(Protocol):
    """A step, with the tensors that are saved of it."""

    @property
    def step(self) -> int: ...
    @property
    def mode(self) -> str: ...
    @property
    def tensors(self) -> Mapping[str, NDArray[Any]]: ...


class SavedSteps:
    """Writes losses as curves, and tensors as histograms. Called by one thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, EventFile] = {}

    def write(
        self, step: Step, losses: Sequence[str], histograms: Mapping[str, Sequence[str]]
    ) -> None:
        """
        Args:
            step: its arrays may be gone afterwards.
            losses: names of tensors; those of one element become points of a curve.
            histograms: names of tensors → the collections that want one of it.
        """
        arrays = step.tensors
        curves = [name for name in losses if name in arrays and arrays[name].size == 1]
        shown = [name for name in histograms if name in arrays and _can_be_counted(arrays[name])]
        if not curves and not shown:
            return
        # smdebug, too, has a run of its own for each mode.
        stream, now = self._file(step.mode).stream, time.time()
        for name in curves:
            stream.add_scalar((now, step.step, name, float(arrays[name].item())))
        for name in shown:
            counted = make_histogram(arrays[name])
            # One is enough, as in smdebug, whatever number of collections it belongs to.
            tag = f"{histograms[name][0]}/{name}".encode()
            stream.add_message(encode_histogram(now, step.step, tag, counted))

    def _file(self, mode: str) -> EventFile:
        if mode not in self._files:
            self._files[mode] = EventFile(f"{self._folder}/{mode}")
        return self._files[mode]


def open_saved_steps(job: Job) -> SavedSteps | None:
    """In the job's TensorBoard folder, if it was asked for one; else None."""
    return SavedSteps(run_dir(job)) if job.services.tensorboard else None


def _can_be_counted(array: NDArray[Any]) -> bool:
    return array.size > 0 and array.dtype.kind in "iuf"
