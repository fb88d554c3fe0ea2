"""How far a transfer has come: bytes, rate and remaining time, in one line.

The same line is shown on a terminal, in a container's log, and as the status message of a job,
which is how the platform tells the command line about it.
"""

from __future__ import annotations

import threading
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN_SECONDS = 10.0
"""How often a log or a pipe gets a line; a terminal redraws its own."""

SHOWN_SECONDS = 1.0
"""How often the platform puts it into the status of a job."""

_WINDOW_SECONDS = 10.0
"""The rate is that of the last seconds: what is left takes as long as now, not as in the mean."""


class Progress:
    """Counts the bytes of one transfer; several threads may add to it.

    Example:
        >>> progress = Progress("upload of train", 2_000_000_000, show=print)
        >>> progress.add(500_000_000)
        upload of train: 500 MB of 2 GB, 310 MB/s, 5 s left
    """

    def __init__(
        self,
        what: str,
        total_bytes: int,
        *,
        show: Callable[[str], object],
        every_seconds: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            what: the beginning of the line.
            total_bytes: 0 if it is not known.
            show: gets the line; first when `every_seconds` have passed.
            every_seconds: how often.
            clock: tells the time in seconds.
        """
        self._what = what
        self._total_bytes = total_bytes
        self._show = show
        self._every_seconds = every_seconds
        self._clock = clock
        self._done_bytes = 0
        self._lock = threading.Lock()
        began = clock()
        self._next = began + every_seconds
        self._marks = deque([(began, 0)])

    def add(self, size_bytes: int) -> None:
        """So many more bytes are done; fewer if something has to be read again."""
        with self._lock:
            self._done_bytes += size_bytes
            now = self._clock()
            if now < self._next:
                return
            self._next = now + self._every_seconds
            line = self._render(now)
        # Outside of the lock: a slow terminal must not hold up the threads that transfer.
        self._show(line)

    def _render(self, now: float) -> str:
        while len(self._marks) > 1 and self._marks[0][0] < now - _WINDOW_SECONDS:
            self._marks.popleft()
        # The oldest mark of the window; the one of now is added after it was compared.
        then, done_then = self._marks[0]
        self._marks.append((now, self._done_bytes))
        # Never negative: `add` gets negative sizes when a part has to be sent again.
        rate = max(0.0, (self._done_bytes - done_then) / max(now - then, 1e-9))
        parts = [show_size(self._done_bytes)]
        if self._total_bytes:
            parts[0] += f" of {show_size(self._total_bytes)}"
        parts.append(f"{show_size(rate)}/s")
        left_bytes = self._total_bytes - self._done_bytes
        if left_bytes > 0 and rate:
            parts.append(f"{show_elapsed(left_bytes / rate)} left")
        return f"{self._what}: {', '.join(parts)}"


def show_nothing(line: str) -> None:
    """For callers that do not look at the progress."""


def show_elapsed(seconds: float) -> str:
    """The time on a clock that runs, in whole seconds: `7 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def show_size(size_bytes: float) -> str:
    """`512 B`, `1.34 MB`: to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 999.5:  # else rounding would make it 1e+03
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} TB"
