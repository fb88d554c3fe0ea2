"""Durations as people write them: 30s, 5m, 1.5h, or seconds when no unit is given."""

from __future__ import annotations

import math
import re

from stoker.machine.failures import UsageRefused

_UNITS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)\s*(s|sec|m|min|h|d|)")


def read_seconds(text: str) -> float:
    """The seconds a duration means.

    Raises:
        UsageRefused: it is no duration.

    Example:
        >>> read_seconds("1.5h")
        5400.0
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if not found:
        raise UsageRefused(f"{text!r} is no duration", fix="write 30s, 5m, 1.5h or 2d")
    return float(found[1]) * _UNITS[found[2]]


def show_seconds(seconds: float) -> str:
    """A duration in the unit people would choose, to about three digits.

    Example:
        >>> show_seconds(5400)
        '1.5 h'
    """
    if not math.isfinite(seconds):
        return "never"
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length * (2 if unit == "d" else 1):
            return f"{_digits(seconds / length)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
