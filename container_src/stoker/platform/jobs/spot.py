"""When spot capacity is interrupted and returned: STOKER_SPOT, read into a schedule.

after=30s             once, 30 s after training began
every=2m,times=3      2 min after each start of training, three times (without times: always)
trace=FILE            as a recorded trace says (spot_trace.py); speed=60: 60 times faster
and with any of them:
warning=no            SIGKILL at once; else SIGTERM, up to 120 s, SIGKILL
pause=1s              how long the capacity is away before the restart (a trace knows better)

A schedule is a pure function of times the store keeps, so a restarted server continues it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import StokerError
from stoker.machine.failures import UsageRefused
from stoker.machine.units import read_seconds
from stoker.platform.jobs.spot_trace import Trace, read_trace
from stoker.platform.jobs.state import JobRecord

VARIABLE = "STOKER_SPOT"
_KEYS = ("after", "every", "trace", "times", "warning", "pause", "speed")


class SpotInvalid(StokerError):
    """STOKER_SPOT does not say when to interrupt."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """A trace over the time since a job's training first began."""

    gone: tuple[tuple[float, float], ...]
    """From when to when (in seconds) there was none, in order; after the last there always is."""

    def lost_after(self, moment: float) -> float | None:
        """When capacity that is there at a moment goes away; None: never again."""
        return next((start for start, _ in self.gone if start > moment), None)

    def back_after(self, moment: float) -> float:
        """When capacity is there, from a moment on."""
        return next((end for start, end in self.gone if start <= moment < end), moment)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpotSchedule:
    """When a job is interrupted, and for how long."""

    interval_seconds: float | None = None
    """From the start of training to the interruption; None: the trace says."""

    times: int | None = None
    """How many interruptions at most; None: no limit."""

    capacity: Capacity | None = None
    """What the trace says."""

    warning: bool = True
    pause_seconds: float = 1.0

    def interruption_at(self, record: JobRecord) -> float | None:
        """When the running attempt is to be interrupted; None: not at all."""
        began, first = record.attempt.began, record.training_started
        if began is None or first is None:
            return None
        before = sum(a.cause == "interrupted" for a in record.attempts[:-1])
        if self.times is not None and before >= self.times:
            return None
        if self.capacity is not None:
            lost = self.capacity.lost_after(began - first)
            return None if lost is None else first + lost
        return None if self.interval_seconds is None else began + self.interval_seconds

    def restart_at(self, record: JobRecord) -> float:
        """When an interrupted job gets capacity again."""
        ended = record.attempt.ended or record.modified
        first = record.training_started
        if self.capacity is None or first is None:
            return ended + self.pause_seconds
        return max(ended, first + self.capacity.back_after(ended - first))


NEVER = SpotSchedule()


def read_schedule(
    job: Mapping[str, str], server: Mapping[str, str], *, instances: int = 1
) -> SpotSchedule:
    """The schedule of a spot job.

    Args:
        job: its environment, which comes first.
        server: that of the server.
        instances: how many a trace must have for the job to run.

    Raises:
        SpotInvalid: the text is not understood, or its trace cannot be read.
    """
    text = job.get(VARIABLE) or server.get(VARIABLE) or ""
    return make_schedule(text, instances=instances) if text else NEVER


def make_schedule(text: str, *, instances: int = 1) -> SpotSchedule:
    """What STOKER_SPOT means; all mistakes at once.

    Raises:
        SpotInvalid: the text is not understood, or its trace cannot be read.
    """
    settings: dict[str, str] = {}
    mistakes: list[str] = []
    for part in text.split(","):
        key, _, value = (each.strip() for each in part.partition("="))
        if key not in _KEYS or not value:
            mistakes.append(f"{part.strip()!r} is not one of {', '.join(_KEYS)} with a value")
        elif key in settings:
            mistakes.append(f"{key} is given twice")
        settings[key] = value
    chosen = [key for key in ("after", "every", "trace") if key in settings]
    if len(chosen) != 1:
        mistakes.append(f"one of after, every, trace is needed, but there are {len(chosen)}")
    if "times" in settings and "every" not in settings:
        mistakes.append("times can be used with every only")
    if "speed" in settings and "trace" not in settings:
        mistakes.append("speed can be used with trace only")
    _require(text, mistakes)
    return _schedule(text, settings, instances)


def _schedule(text: str, settings: Mapping[str, str], instances: int) -> SpotSchedule:
    mistakes: list[str] = []
    warning = settings.get("warning", "yes")
    if warning not in ("yes", "no"):
        mistakes.append(f"warning is yes or no, not {warning!r}")
    times = settings.get("times")
    if times is not None and not (times.isdecimal() and int(times) > 0):
        mistakes.append(f"times is a whole number from 1 on, not {times!r}")
    interval = _seconds(settings.get("after") or settings.get("every"), mistakes)
    pause = _seconds(settings.get("pause", "1s"), mistakes)
    capacity = _capacity(settings, instances, mistakes)
    _require(text, mistakes)
    return SpotSchedule(
        interval_seconds=interval,
        times=1 if "after" in settings else int(times) if times else None,
        capacity=capacity,
        warning=warning == "yes",
        pause_seconds=pause or 0.0,
    )


def _capacity(settings: Mapping[str, str], instances: int, mistakes: list[str]) -> Capacity | None:
    if "trace" not in settings:
        return None
    speed = settings.get("speed", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", speed) or float(speed) <= 0:
        mistakes.append(f"speed is a number above 0, not {speed!r}")
        return None
    try:
        trace = read_trace(Path(settings["trace"]), instances=instances)
    except UsageRefused as error:
        mistakes.append(error.message)
        return None
    return _make_capacity(trace, float(speed))


def _make_capacity(trace: Trace, speed: float) -> Capacity:
    gone, now = [], 0.0
    ended = trace.stays[:-1] if trace.ends_up else trace.stays
    for stay in ended:
        lost = now + stay.up_seconds
        # A job begins to train when there is capacity: what was before that is left out.
        now = lost + stay.down_seconds if lost else 0.0
        if lost:
            gone.append((lost / speed, now / speed))
    return Capacity(tuple(gone))


def _seconds(text: str | None, mistakes: list[str]) -> float | None:
    if text is None:
        return None
    try:
        return read_seconds(text)
    except UsageRefused as error:
        mistakes.append(error.message)
        return None


def _require(text: str, mistakes: list[str]) -> None:
    if mistakes:
        raise SpotInvalid(
            f"{VARIABLE}={text!r} is not understood: {'; '.join(mistakes)}",
            fix='write "after=30s", "every=2m,times=3" or "trace=FILE", '
            'and add ",warning=no" or ",pause=10s" where wanted',
        )
