"""A recorded trace of spot capacity: when it was there and when it was not.

Two forms are read: JSON as the public skypilot-org/spot-traces are, one flag per step, 1 where
the capacity was gone, `{"metadata": {"gap_seconds": 600}, "data": [0, 0, 1, …]}`; and plain text,
the seconds of each run by turns, up, down, up, down …, one number per line.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import StokerError

_DEFAULT_GAP_SECONDS = 600


class TraceInvalid(StokerError):
    """The file is not a trace of spot capacity."""


@dataclass(frozen=True, slots=True)
class SpotTrace:
    """Capacity over the time since a job's training first began."""

    gone: tuple[tuple[float, float], ...]
    """From when to when (in seconds) there was none, in order; after the last there always is."""

    def lost_after(self, moment: float) -> float | None:
        """When capacity that is there at a moment goes away; None: never again."""
        return next((start for start, _ in self.gone if start > moment), None)

    def back_after(self, moment: float) -> float:
        """When capacity is there, from a moment on."""
        return next((end for start, end in self.gone if start <= moment < end), moment)

    def faster(self, speed: float) -> SpotTrace:
        """The same trace in less time."""
        return SpotTrace(tuple((start / speed, end / speed) for start, end in self.gone))


def read_trace(file: Path) -> SpotTrace:
    """Read either form.

    Raises:
        TraceInvalid: the file cannot be read or is neither.
    """
    try:
        text = file.read_text()
        runs = _runs_of_json(json.loads(text)) if text.lstrip()[:1] == "{" else _runs_of_text(text)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TraceInvalid(
            f"{file} is not a trace of spot capacity: {error}",
            fix="pass a JSON file of skypilot-org/spot-traces, or text with the seconds up and "
            "down by turns, one number per line",
        ) from error
    return _make_trace(runs)


def _runs_of_json(content: dict[str, Any]) -> list[tuple[bool, float]]:
    gap = float(content.get("metadata", {}).get("gap_seconds", _DEFAULT_GAP_SECONDS))
    flags = [bool(int(flag)) for flag in content["data"]]
    return [(not gone, gap * len(list(steps))) for gone, steps in itertools.groupby(flags)]


def _runs_of_text(text: str) -> list[tuple[bool, float]]:
    numbers = [float(line) for line in text.split()]
    if not numbers or any(number < 0 or not math.isfinite(number) for number in numbers):
        raise ValueError("numbers from 0 on are expected, one per line, at least one")
    return [(index % 2 == 0, number) for index, number in enumerate(numbers)]


def _make_trace(runs: list[tuple[bool, float]]) -> SpotTrace:
    while runs and not runs[0][0]:
        runs = runs[1:]  # a job begins to train when there is capacity
    gone, now = [], 0.0
    for up, seconds in runs:
        if not up:
            gone.append((now, now + seconds))
        now += seconds
    return SpotTrace(tuple(gone))
