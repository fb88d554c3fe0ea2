"""Autotune: ranges for hyperparameters of which only a typical value is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FLOAT_FACTOR = 10.0
_INTEGER_FACTOR = 2


def choose_ranges(ranges: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges with those of `AutoParameters` added; the service does not publish its own.

    Example:
        >>> choose_ranges({"AutoParameters": [{"Name": "lr", "ValueHint": "0.01"}]})
        {'ContinuousParameterRanges': [{'Name': 'lr', 'MinValue': '0.001', 'MaxValue': '0.1', \
'ScalingType': 'Auto'}]}
    """
    chosen = {kind: list(rows) for kind, rows in ranges.items() if kind != "AutoParameters"}
    for parameter in ranges.get("AutoParameters", ()):
        found = _choose(parameter["Name"], parameter["ValueHint"].strip('"'))
        if found is not None:
            chosen.setdefault(found[0], []).append(found[1])
    return chosen


def choose_static(ranges: Mapping[str, Any]) -> dict[str, str]:
    """Hints that are words: nothing is known about their alternatives, so they are kept."""
    return {
        parameter["Name"]: parameter["ValueHint"]
        for parameter in ranges.get("AutoParameters", ())
        if _choose(parameter["Name"], parameter["ValueHint"].strip('"')) is None
    }


def _choose(name: str, hint: str) -> tuple[str, dict[str, Any]] | None:
    if hint.lower() in ("true", "false"):
        return "CategoricalParameterRanges", {"Name": name, "Values": ["true", "false"]}
    if hint.isdecimal():
        count = int(hint)
        # Also a hint of 0 or 1 gets a range of more than one value.
        low, high = count // _INTEGER_FACTOR, max(1, count) * _INTEGER_FACTOR
        return "IntegerParameterRanges", _number(name, str(low), str(high))
    try:
        value = abs(float(hint))
    except ValueError:
        return None
    least, most = (value / _FLOAT_FACTOR, value * _FLOAT_FACTOR) if value else (0.0, 1.0)
    return "ContinuousParameterRanges", _number(name, f"{least:g}", f"{most:g}")


def _number(name: str, low: str, high: str) -> dict[str, Any]:
    return {"Name": name, "MinValue": low, "MaxValue": high, "ScalingType": "Auto"}
