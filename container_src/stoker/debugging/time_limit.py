"""A bound for what a rule may take: one that never answers must not silence all others."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(BaseException):
    """Not an Exception: a rule that catches those must not catch this one, too."""


@contextmanager
def time_limit(seconds: float | Callable[[], float] | None) -> Iterator[None]:
    """Interrupts what runs inside once the time is over; for the main thread.

    Args:
        seconds: of wall clock, or what tells them; None for no limit.

    Raises:
        TooSlow: in the line that was running.
    """
    if seconds is None:
        yield
        return

    started = time.monotonic()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"no answer within {round(time.monotonic() - started, 1):g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds() if callable(seconds) else seconds)
    try:
        if callable(seconds):
            shorten_limit(seconds())  # they may have become fewer before the clock ran
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def shorten_limit(seconds: float) -> None:
    """What runs within a limit right now, if anything does, has only so much left."""
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    if left > seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds)
