"""pip's output: as it is, but of its progress a line every ten seconds.

Loaded only where something is installed: most jobs start without it.
"""

from __future__ import annotations

import os
import re
import sys
import time

from stoker.bus.progress import PLAIN_SECONDS, Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The first pip whose --progress-bar knows `raw`.
_FIRST_WITH_RAW = (24, 1)
_RAW_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)\n", re.MULTILINE)


class PipOutput:
    """Masks lines, and counts the bytes of those that `--progress-bar raw` prints."""

    def __init__(
        self, mask: Callable[[str], str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._mask = mask
        self._clock = clock
        self._progress: Progress | None = None
        self._done_bytes = 0
        self._lines: list[str] = []

    def __call__(self, text: str) -> str:
        """What the log shows of these lines."""
        return self._mask(_RAW_PROGRESS.sub(self._count, text))

    def _count(self, found: re.Match[str]) -> str:
        done_bytes, total_bytes = int(found[1]), int(found[2])
        if self._progress is None or done_bytes < self._done_bytes:  # the next file
            self._done_bytes = 0
            self._progress = Progress(
                "[stoker] pip",
                total_bytes,
                show=self._lines.append,
                every_seconds=PLAIN_SECONDS,
                clock=self._clock,
            )
        self._progress.add(done_bytes - self._done_bytes)
        self._done_bytes = done_bytes
        return f"{self._lines.pop()}\n" if self._lines else ""


def find_progress_bar() -> str:
    """The progress bar to ask pip for: one that can be read, if this pip has it."""
    # Read from its file: the launcher runs without site-packages, and asking pip takes a second.
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        with open(f"{prefix}/lib/python{version}/site-packages/pip/__init__.py") as file:
            found = re.search(r'^__version__ = "(\d+)\.(\d+)', file.read(), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        found = None
    is_readable = found is not None and (int(found[1]), int(found[2])) >= _FIRST_WITH_RAW
    return "raw" if is_readable else "off"
