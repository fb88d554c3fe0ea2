"""The launcher's own lines: few, on stderr, marked, with secrets masked."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STDERR = 2
DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40


class Log:
    """Writes whole lines at once; a log without a reader never stops a job."""

    def __init__(self, *, level: int = INFO, mask: Callable[[str], str] = str) -> None:
        self.level = level
        self.mask = mask

    def info(self, text: str) -> None:
        self._write(INFO, text)

    def warning(self, text: str) -> None:
        self._write(WARNING, f"warning: {text}")

    def error(self, text: str) -> None:
        self._write(ERROR, f"error: {text}")

    def _write(self, level: int, text: str) -> None:
        if level < self.level:
            return
        lines = self.mask(text).splitlines() or [""]
        block = "".join(f"[stoker] {line}\n" for line in lines)
        try:
            os.write(STDERR, block.encode("utf-8", "replace"))
        except OSError:
            return
