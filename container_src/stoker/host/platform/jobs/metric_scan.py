"""Run as a program: applies regular expressions to log lines, each within a limit of its own.

Reads `{"events": [[ms, text], …], "definitions": [[name, regex], …], "cpu_seconds": n}` from
stdin; writes a line per definition as soon as it is done: `[ms, value]` of the last match, `[]` if
there is none, `null` if it took too long. Standard library only: it starts in no time.
"""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from types import FrameType


class _TooLong(Exception):
    pass


def main() -> None:
    """Scan what stdin holds."""
    work = json.load(sys.stdin)
    # The regex engine looks for signals every few thousand steps, in the main thread only. The
    # timer counts this process's own processor time: a busy machine gives up nothing.
    signal.signal(signal.SIGVTALRM, _interrupt)
    for _, pattern in work["definitions"]:
        answer = _scan(pattern, work["events"], work["cpu_seconds"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _scan(pattern: str, events: list[tuple[int, str]], cpu_seconds: float) -> list[float] | None:
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
            return _last_value(re.compile(pattern), events)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except (_TooLong, re.error, RecursionError):
        return None


def _last_value(pattern: re.Pattern[str], events: list[tuple[int, str]]) -> list[float]:
    for moment, text in reversed(events):
        values = [value for value in map(_number, pattern.finditer(text)) if value is not None]
        if values:
            return [moment, values[-1]]
    return []


def _number(match: re.Match[str]) -> float | None:
    try:
        value = float(match[1] if match.re.groups else match[0])
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None  # the API has no word for nan


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _TooLong


if __name__ == "__main__":
    main()
