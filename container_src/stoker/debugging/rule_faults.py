"""What can be wrong with a user's rule: an exception, or no answer within its time."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from stoker.contract.debugger import CHECK_VARIABLE


def describe_fault(error: BaseException) -> str:
    """Type, text and the innermost line of an exception that a rule's own code raised.

    Raises:
        KeyboardInterrupt: see `fault_text`.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, TooSlow):
        frames.pop()  # the handler's own: the line before was interrupted
        return f"the rule gave {error}{_where(frames)}; {CHECK_VARIABLE} allows more"
    return f"the rule raised {fault_text(error)}{_where(frames)}"


def fault_text(error: BaseException) -> str:
    """Type and text of an exception that a user's own code raised.

    Raises:
        KeyboardInterrupt: it may be a person's Ctrl-C. Not where this process handles SIGINT
            itself, as the evaluator of a job does: there only a rule can have raised it.
    """
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(error, KeyboardInterrupt) and handler is signal.default_int_handler:
        raise error
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException as other:  # the class of the exception is the user's, too
        return f"{type(error).__name__}, whose text cannot be made ({type(other).__name__})"


def _where(frames: traceback.StackSummary) -> str:
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


class TooSlow(BaseException):
    """Not an Exception: a rule that catches those must not catch this one, too."""


RULE_FAULTS = BaseException
"""What a user's own rule may raise: none of it ends the other rules."""


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
