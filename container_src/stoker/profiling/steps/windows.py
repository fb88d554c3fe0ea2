"""The steps that are looked at closely: operators by torch.profiler, Python by its profilers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stoker.contract.profiler import ProfilerSettings, StepRange
from stoker.profiling.steps.python_profile import PythonProfile
from stoker.profiling.window import MOST_STEPS, Window

if TYPE_CHECKING:
    from stoker.profiling.traces import Traces


class Windows:
    """Starts and stops profiles between two steps."""

    def __init__(
        self, settings: ProfilerSettings, node: str, epoch: float, *, tell: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._node = node
        self._epoch = epoch
        self._tell = tell
        self._traces: Traces | None = None
        self._is_traced: StepRange | None = None
        """The range that has been recorded, or is."""
        self._python: PythonProfile | None = None
        self._is_idle = settings.detailed is None and settings.python is None

    def follow(self, settings: ProfilerSettings) -> None:
        """New settings; they count for the steps from here on."""
        self._settings = settings
        self._is_idle = settings.detailed is None and settings.python is None

    def after_train_step(self, step: int, end: float) -> None:
        """A training step has ended; the next one begins.

        Args:
            step: its number.
            end: on the clock of the steps.
        """
        if self._is_idle and self._traces is None and self._python is None:
            return
        now = self._epoch + end
        try:
            self._profile_python(step + 1, now)
        except Exception as error:  # the script's own profiler, a full disk, no pyinstrument
            self._python = None
            self._settings = self._settings.replace(python=None)
            self._tell(f"no Python profiles: {error}")
        self._trace(step + 1, now)

    def close(self) -> None:
        """The script ends: the steps that have been traced are written."""
        if self._traces is not None:
            self._traces.close()
        if self._python is not None:
            self._python.discard()

    def forget(self) -> None:
        """In a forked process."""
        self._traces = self._python = None

    def _profile_python(self, step: int, now: float) -> None:
        if self._python is not None and self._python.is_running:
            self._python.stop()
        asked = self._settings.python
        if asked is None or not asked.has(step, now):
            return
        if self._python is None:
            settings = self._settings
            self._python = PythonProfile(
                settings.folder, self._node, settings.python_profiler, settings.python_timer
            )
        self._python.start(step)

    def _trace(self, step: int, now: float) -> None:
        asked = self._settings.detailed
        if self._traces is not None:
            self._traces.step()
            if asked is not None and asked.end is not None and now >= asked.end:
                self._traces.close()
            if self._traces.is_over:
                self._traces = None
            return
        if asked is None or asked == self._is_traced:
            return
        # One step earlier, in which torch's profiler gets ready.
        if asked.first is not None and asked.last is not None:
            if asked.first - 1 <= step <= asked.last:
                first = max(asked.first, step + 1)
                self._open_traces(asked, step, first, asked.last - first + 1)
        elif asked.has(step, now):
            self._open_traces(asked, step, step + 1, MOST_STEPS)

    def _open_traces(self, asked: StepRange, step: int, first: int, count: int) -> None:
        from stoker.profiling.traces import Traces

        self._is_traced = asked
        window = Window(
            skip_first=first - 1, wait=0, warmup=1, active=max(1, min(count, MOST_STEPS))
        )
        folder = f"{self._settings.folder}/framework/pytorch/detailed_profiling"
        hour = time.strftime("%Y%m%d%H", time.gmtime())
        self._traces = Traces(
            os.path.join(folder, hour),
            window,
            worker=self._node,
            first_step=step,
            name_run=_name_run,
        )
        self._traces.__enter__()


def _name_run(step: int) -> str:
    return f"{step:09}"
