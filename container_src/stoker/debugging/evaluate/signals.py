"""What the launcher wants of the evaluator, which it says by signals."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

from stoker.debugging.rule_faults import shorten_limit

JOB_STOPPED = signal.SIGTERM
"""The training was stopped from outside; what is saved is still evaluated."""

CONCLUDE = signal.SIGINT
"""The time is over: write down how things stand, and end."""

LAST_ANSWER_SECONDS = 3.0
"""For all remaining answers together. The launcher kills this process 20 s after the signal."""

_SHORTEST_ANSWER_SECONDS = 0.5
"""For a rule whose turn comes when that is used up: it has done nothing wrong."""


class EvaluatorSignals:
    """What was requested so far. An evaluator whose launcher is gone concludes by itself."""

    def __init__(self) -> None:
        self.is_job_stopped = False
        self._told_to_conclude_at: float | None = None
        # A launcher that dies has no way to send a signal: this process then gets another parent.
        self._parent = os.getppid()

    def listen(self) -> None:
        """From now on signals are noted; for the main thread of a process of our own."""
        signal.signal(JOB_STOPPED, self._receive)
        signal.signal(CONCLUDE, self._receive)

    @property
    def is_over(self) -> bool:
        return self._told_to_conclude_at is not None or os.getppid() != self._parent

    def answer_seconds(self, longest_seconds: float) -> float:
        """How long an answer may take by now, of one that may take so long otherwise."""
        if self._told_to_conclude_at is None:
            return longest_seconds
        left = self._told_to_conclude_at + LAST_ANSWER_SECONDS - time.monotonic()
        return min(longest_seconds, max(left, _SHORTEST_ANSWER_SECONDS))

    def conclude(self) -> None:
        """Notes that the time is over; what is being asked right now is cut short."""
        self._told_to_conclude_at = time.monotonic()
        # The alarm of the rule that is being asked was set for its full time.
        shorten_limit(LAST_ANSWER_SECONDS)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if number == JOB_STOPPED:
            self.is_job_stopped = True
        else:
            self.conclude()
