"""Ctrl-C while a job is watched: counted, so that the command decides what it means."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """While entered, counts SIGINT; from the second on KeyboardInterrupt is raised as usual."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # Only counted: an exception could come in the middle of a request that creates the job.
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
