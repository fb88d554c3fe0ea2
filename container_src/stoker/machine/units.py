"""Durations and sizes: read as people write them, shown in the unit they would choose."""

from __future__ import annotations

import math
import re

# A container's log shows them, too, so they are defined below this layer.
from stoker.bus.progress import show_elapsed as show_elapsed
from stoker.bus.progress import show_size as show_size
from stoker.machine.failures import UsageRefused

_SECONDS = {
    **{"ms": 0.001, "": 1.0, "s": 1.0, "sec": 1.0},
    **{"m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
}
_DURATION = re.compile(rf"(\d+\.?\d*|\.\d+)\s*({'|'.join(_SECONDS)})")


def read_seconds(text: str) -> float:
    """The seconds that a duration such as 30s, 5m or 1.5h means; a bare number is in seconds.

    Raises:
        UsageRefused: it is not a duration.

    Example:
        >>> read_seconds("1.5h")
        5400.0
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if not found:
        raise UsageRefused(f"{text!r} is not a duration", fix="write 30s, 5m, 1.5h or 2d")
    return float(found[1]) * _SECONDS[found[2]]


def show_seconds(seconds: float) -> str:
    """A duration in one unit, to about three digits.

    Example:
        >>> show_seconds(5400)
        '1.5 h'
    """
    if not math.isfinite(seconds):
        return "never"
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        # "36 h" says more than "1.5 d".
        if seconds >= length * (2 if unit == "d" else 1):
            return f"{_digits(seconds / length)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
