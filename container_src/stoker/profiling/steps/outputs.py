"""Where steps go: their records, the timeline, and the profiles of the steps asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from stoker.bus.step_records import EVALUATION, steps_file, write_facts
from stoker.contract.profiler import ProfilerSettings
from stoker.profiling.steps.facts import Process
from stoker.profiling.steps.step_file import StepFile
from stoker.profiling.steps.step_timer import Step
from stoker.profiling.steps.timeline import Timeline
from stoker.profiling.steps.windows import Windows

FACTS_SECONDS = 30.0
"""Between two looks at the memory of the accelerator."""


class Outputs:
    """The files of one process. What cannot be written is reported once and left out."""

    def __init__(
        self,
        settings: ProfilerSettings,
        process: Process,
        epoch: float,
        tell: Callable[[str], None],
    ) -> None:
        self._process = process
        self._epoch = epoch
        self._tell = tell
        self._told: set[str] = set()
        facts = process.facts
        path = steps_file(settings.folder, host=facts.host, rank=facts.rank, pid=facts.pid)
        self._records = StepFile(path, tell=self._tell_once)
        self._timeline = Timeline(
            settings.folder,
            process.node,
            rotate_bytes=settings.rotate_bytes,
            rotate_seconds=settings.rotate_seconds,
            most_failures=settings.open_failures,
            tell=self._tell_once,
        )
        self._windows = Windows(settings, process.node, epoch, tell=self._tell_once)
        self._next_facts = 0.0

    def take(self, step: Step, device: tuple[float, ...]) -> None:
        """A step has ended."""
        self._records.add(step, self._epoch + step.start, device)
        self._timeline.add(step, self._epoch)
        end = step.start + step.total
        if not step.flags & EVALUATION:
            self._windows.after_train_step(step.number, end)
        if end >= self._next_facts:
            self._next_facts = end + FACTS_SECONDS
            self._process.read_memory()
        if self._process.is_changed:
            self._write_facts()

    def add_loader(
        self, kind: str, begun: float, ended: float, step: int, described: Mapping[str, Any]
    ) -> None:
        """A DataLoader has started."""
        workers, is_pinned = described["num_workers"], described["pin_memory"]
        self._timeline.add_loader(
            kind, begun, ended, step=step, workers=workers, is_pinned=is_pinned
        )

    def follow(self, settings: ProfilerSettings) -> None:
        """The settings have been changed, perhaps."""
        self._windows.follow(settings)

    def flush(self) -> None:
        """Writes what is waiting."""
        self._records.flush()
        self._timeline.close()

    def close(self, tail: Mapping[str, float]) -> None:
        """Nothing more comes but what has been since the last step."""
        self._process.change(tail=tail)
        self._windows.close()
        self._records.close()
        self._timeline.close()
        self._process.read_memory()
        if self._records.trouble:
            self._process.change(is_cut=True, reason=self._records.trouble)
        if self._process.is_changed:
            self._write_facts()

    def forget(self) -> None:
        """In a forked process: the files are the parent's."""
        self._records.forget()
        self._windows.forget()

    def _write_facts(self) -> None:
        self._process.is_changed = False
        # If the records cannot be written either, that has been reported.
        with contextlib.suppress(OSError):
            write_facts(self._records.path, self._process.facts)

    def _tell_once(self, trouble: str) -> None:
        if trouble not in self._told and len(self._told) < 3:
            self._told.add(trouble)
            self._tell(trouble)
