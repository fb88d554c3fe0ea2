"""When machines of a kind were to be had: recorded traces of spot capacity.

Two formats are read:

* the public one of skypilot-org/spot-traces, JSON: `{"metadata": {"gap_seconds": 300},
  "data": [1, 1, 0, …]}`, how many instances could be had at each tick;
* a simple list, one line for each stay: how long the machine was there, and how long after it
  there was none, such as `1.5h 20m` (the second may be left out; `#` starts a comment).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from stoker.machine.failures import UsageRefused
from stoker.machine.units import read_seconds

_FOREVER_SECONDS = 1e12
_FORMATS = (
    'give JSON as {"metadata": {"gap_seconds": 300}, "data": [1, 1, 0]},'
    " or lines such as `1.5h 20m`: time with a machine, time without"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stay:
    """One machine: how long it was there, and how long none was after it."""

    up_seconds: float
    """From its start until its interruption; 0 if the record begins without one."""

    down_seconds: float
    """Until the next one could be had."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """A record of interruptions, in order."""

    name: str
    """Where it comes from, for people."""

    stays: tuple[Stay, ...]
    """One after the other."""

    ends_up: bool = False
    """Whether the record ends with a machine that is not interrupted yet."""

    @property
    def up_seconds(self) -> float:
        """For how long a machine was there, in all."""
        return sum(stay.up_seconds for stay in self.stays)

    @property
    def down_seconds(self) -> float:
        """For how long there was none, in all."""
        return sum(stay.down_seconds for stay in self.stays)

    @property
    def interruptions(self) -> int:
        """How often a machine was interrupted."""
        return sum(1 for stay in self.stays if stay.up_seconds) - self.ends_up

    @property
    def availability(self) -> float:
        """The share of the time in which a machine was there, from 0 to 1."""
        return self.up_seconds / (self.up_seconds + self.down_seconds)

    @property
    def mean_up_seconds(self) -> float:
        """Time with a machine for each interruption."""
        return self.up_seconds / max(self.interruptions, 1)

    def around(self) -> tuple[Stay, ...]:
        """The stays as a circle: a machine there at the end is the one there at the start."""
        if not self.ends_up:
            return self.stays
        if not self.down_seconds:
            return (Stay(up_seconds=_FOREVER_SECONDS, down_seconds=0.0),)
        first, *others, last = self.stays
        joined = first.up_seconds + last.up_seconds
        return (Stay(up_seconds=joined, down_seconds=first.down_seconds), *others)


def read_trace(file: Path, *, instances: int = 1) -> Trace:
    """Read a trace in either format.

    Args:
        file: the trace.
        instances: how many machines the job needs at once; fewer count as none.

    Raises:
        UsageRefused: it cannot be read, or there was never a machine in it.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageRefused(f"the trace {file} cannot be read: {error}", fix=_FORMATS) from error
    is_json = text.lstrip().startswith("{")
    stays = _read_ticks(text, file, instances) if is_json else _read_list(text, file)
    # In a list every stay has ended; a row of ticks may break off within one.
    ends_up = is_json and bool(stays) and stays[-1].down_seconds == 0
    if not any(stay.up_seconds for stay in stays):
        raise UsageRefused(
            f"in {file} there is never a machine (of {instances} needed)", fix=_FORMATS
        )
    return Trace(name=file.name, stays=tuple(stays), ends_up=ends_up)


def _read_ticks(text: str, file: Path, instances: int) -> list[Stay]:
    try:
        record = json.loads(text)
        gap_seconds = float(record["metadata"]["gap_seconds"])
        there = [float(count) >= instances for count in record["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageRefused(
            f"{file} is not a spot trace: {type(error).__name__}: {error}", fix=_FORMATS
        ) from error
    if gap_seconds <= 0:
        raise UsageRefused(f"{file}: gap_seconds is {gap_seconds}, not above 0", fix=_FORMATS)
    spells = [(up, len(list(ticks)) * gap_seconds) for up, ticks in groupby(there)]
    return _pair(spells)


def _pair(spells: Sequence[tuple[bool, float]]) -> list[Stay]:
    """Spells that alternate, with a machine and without, as stays."""
    if spells and not spells[0][0]:
        spells = [(True, 0.0), *spells]
    if len(spells) % 2:
        spells = [*spells, (False, 0.0)]
    lengths = [seconds for _, seconds in spells]
    return [
        Stay(up_seconds=up, down_seconds=down)
        for up, down in zip(lengths[::2], lengths[1::2], strict=True)
    ]


def _read_list(text: str, file: Path) -> list[Stay]:
    stays = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if len(words) > 2:
            raise UsageRefused(f"{file}, line {number}: more than two durations", fix=_FORMATS)
        try:
            seconds = [read_seconds(word) for word in words]
        except UsageRefused as error:
            raise UsageRefused(f"{file}, line {number}: {error.message}", fix=_FORMATS) from error
        if seconds:
            up, down = (*seconds, 0.0)[:2]
            stays.append(Stay(up_seconds=up, down_seconds=down))
    return stays
