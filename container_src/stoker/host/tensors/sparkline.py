"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stoker.debugging.thinning import thin

_BARS = "▁▂▃▄▅▆▇█"
_FLAT = "▄"
_NOT_FINITE = "✗"
_UNKNOWN = " "


def make_sparkline(values: Sequence[float | None], width: int) -> str:
    """At most so many letters; NaN and infinity are crosses, what is not known is a gap."""
    shown = thin(values, width)
    finite = [v for v in shown if v is not None and math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_letter(value, low, high) for value in shown)


def _letter(value: float | None, low: float, high: float) -> str:
    if value is None:
        return _UNKNOWN
    if not math.isfinite(value):
        return _NOT_FINITE
    # Halved first: the range of two large numbers may be infinite.
    span = high / 2 - low / 2
    if span <= 0:
        return _FLAT
    return _BARS[min(int((value / 2 - low / 2) / span * len(_BARS)), len(_BARS) - 1)]
