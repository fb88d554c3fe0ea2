"""Run as a program: applies regular expressions to logs, each within a limit of its own.

Reads `{"files": [path, …], "regexes": [regex, …], "cpu_seconds": n, "cpu_seconds_per_line": n}`
from stdin. Writes a JSON line as soon as something is known: `[regex's number, ms, value]` for the
last match in a file, `[regex's number]` for one that took too long, `[]` at the end of all. Logs
may be huge: they are read from their ends, a part at a time. Standard library only: it starts in
no time.
"""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from collections.abc import Iterator
from types import FrameType

_BLOCK_BYTES = 1 << 20

Event = tuple[int, str]


class _TooLong(Exception):
    pass


def main() -> None:
    """Scan what stdin names."""
    work = json.load(sys.stdin)
    # The regex engine looks for signals every few thousand steps, in the main thread only. The
    # timer counts this process's own processor time: a busy machine gives up nothing.
    signal.signal(signal.SIGVTALRM, _interrupt)
    left = dict.fromkeys(range(len(work["regexes"])), work["cpu_seconds"])
    for path in work["files"]:
        wanted = list(left)
        for events in _read_backwards(path):
            for number in wanted:
                left[number] += work["cpu_seconds_per_line"] * len(events)
            wanted = [n for n in wanted if not _scan(n, work["regexes"][n], events, left)]
            if not wanted:
                break
    _say()


def _scan(number: int, regex: str, events: list[Event], left: dict[int, float]) -> bool:
    """Whether nothing more is wanted of this file; `left` is the processor time it may take."""
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, max(left[number], 1e-3))
            found = _last_value(re.compile(regex), events)
        finally:
            left[number] = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0]
    except (_TooLong, re.error, RecursionError):
        del left[number]
        _say(number)
        return True
    if found:
        _say(number, *found)
    return bool(found)


def _last_value(pattern: re.Pattern[str], newest_first: list[Event]) -> tuple[int, float] | None:
    for moment, text in newest_first:
        values = [value for value in map(_number, pattern.finditer(text)) if value is not None]
        if values:
            return moment, values[-1]
    return None


def _number(match: re.Match[str]) -> float | None:
    try:
        value = float(match[1] if match.re.groups else match[0])
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None  # the API has no word for nan


def _read_backwards(path: str) -> Iterator[list[Event]]:
    """The events of a log, the newest first, in lists of a bounded size."""
    with open(path, "rb") as file:
        position, rest = file.seek(0, 2), b""
        while position:
            size = min(_BLOCK_BYTES, position)
            position -= size
            file.seek(position)
            rest, *lines = (file.read(size) + rest).split(b"\n")
            yield [event for line in reversed(lines) if (event := _event(line))]
        yield [event for event in [_event(rest)] if event]


def _event(line: bytes) -> Event | None:
    try:
        moment, text = json.loads(line)
    except ValueError:  # nothing behind the last line's end, or a line that is half written
        return None
    return moment, text


def _say(*answer: float) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _TooLong


if __name__ == "__main__":
    main()
