"""A mistake in somebody's rule, in one line: what was raised, and where."""

from __future__ import annotations

import traceback
from pathlib import Path

from stoker.contract.debugger import CHECK_VARIABLE
from stoker.debugging.time_limit import TooSlow

RULE_FAULTS = (Exception, SystemExit, TooSlow)
"""What a user's own rule may raise; one that calls sys.exit must not end the others, too."""


def describe_fault(error: BaseException) -> str:
    """Type, text and the innermost line of an exception that a rule's own code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, TooSlow):
        frames.pop()  # the handler's own: the line before was interrupted
        return f"the rule gave {error}{_where(frames)}; {CHECK_VARIABLE} allows more"
    return f"the rule raised {type(error).__name__}: {error}{_where(frames)}"


def _where(frames: traceback.StackSummary) -> str:
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
