"""Run as a program: applies regular expressions to logs, each within a limit of its own.

The first line of stdin is `{"regexes": [regex, …], "cpu_seconds": n, "cpu_seconds_per_line": n}`;
each further one is `[path, start, end, [numbers of the regexes to apply]]`, with the offsets of
whole lines. The answers are JSON lines: `[regex's number, ms, value]` for a match, `[regex's
number]` for one that took too long, `[null]` when the part of the file is done. Standard library
only: it starts in no time.
"""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from collections.abc import Iterator
from types import FrameType

OWN_LINES = "[stoker] metric "
"""The platform's own lines about metrics quote lines of the script."""

Event = tuple[int, str]


class _TooLong(Exception):
    pass


def main() -> None:
    """Answer every line of stdin."""
    work = json.loads(sys.stdin.readline())
    # The regex engine looks for signals every few thousand steps, in the main thread only. The
    # timer counts this process's own processor time: a busy machine gives up nothing.
    signal.signal(signal.SIGVTALRM, _interrupt)
    regexes = work["regexes"]
    left = dict.fromkeys(range(len(regexes)), work["cpu_seconds"])
    for line in sys.stdin:
        path, start, end, wanted = json.loads(line)
        events = _read_events(path, start, end)
        for number in [n for n in wanted if n in left]:
            left[number] += work["cpu_seconds_per_line"] * len(events)
            _scan(number, regexes[number], events, left)
        _say(None)


def _scan(number: int, regex: str, events: list[Event], left: dict[int, float]) -> None:
    """Say every match; `left` is the processor time that each regex may still take."""
    found = []
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, max(left[number], 1e-3))
            found = list(_matches(re.compile(regex), events))
        finally:
            left[number] = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0]
    except (_TooLong, re.error, RecursionError):
        del left[number]
        _say(number)
        return
    # With the timer off: an interruption here would cut a line of the answer.
    for moment, value in found:
        _say(number, moment, value)


def _matches(pattern: re.Pattern[str], events: list[Event]) -> Iterator[tuple[int, float]]:
    for moment, text in events:
        for match in pattern.finditer(text):
            value = _number(match)
            if value is not None:
                yield moment, value


def _number(match: re.Match[str]) -> float | None:
    try:
        value = float(match[1] if match.re.groups else match[0])
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None  # the API has no word for nan


def _read_events(path: str, start: int, end: int) -> list[Event]:
    with open(path, "rb") as file:
        file.seek(start)
        events = [json.loads(line) for line in file.read(end - start).splitlines()]
    return [(moment, text) for moment, text in events if not text.startswith(OWN_LINES)]


def _say(*answer: float | None) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    if answer[0] is None:
        sys.stdout.flush()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _TooLong


if __name__ == "__main__":
    main()
