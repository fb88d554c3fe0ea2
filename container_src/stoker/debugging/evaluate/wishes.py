"""What the launcher wants of the evaluator, which it says by signals."""

from __future__ import annotations

import os
import signal
from types import FrameType

from stoker.debugging.time_limit import shorten_limit

JOB_STOPPED = signal.SIGTERM
"""The training was stopped from outside; what is saved is still judged."""

CONCLUDE = signal.SIGINT
"""The time is over: write down how things stand, and end."""

LAST_ANSWER_SECONDS = 3.0
"""For the rule that is being asked then. The launcher kills after six, and all rules with it."""


class Wishes:
    """What was wished so far. An evaluator whose launcher is gone concludes by itself."""

    def __init__(self) -> None:
        self.is_job_stopped = False
        self._is_told_to_conclude = False
        self._parent = os.getppid()

    def listen(self) -> None:
        """From now on signals are noted; for the main thread of a process of our own."""
        signal.signal(JOB_STOPPED, self._hear)
        signal.signal(CONCLUDE, self._hear)

    @property
    def is_over(self) -> bool:
        return self._is_told_to_conclude or os.getppid() != self._parent

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if number == JOB_STOPPED:
            self.is_job_stopped = True
        else:
            self._is_told_to_conclude = True
            shorten_limit(LAST_ANSWER_SECONDS)
