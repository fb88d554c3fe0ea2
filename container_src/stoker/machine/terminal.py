"""What a command shows: lines that stay, and one line at the bottom that says where things are.

The line at the bottom exists on a terminal only. In a pipe or a log every line is plain, and how
far long work has come is said every ten seconds in which nothing else was.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TextIO

from stoker.bus.progress import PLAIN_SECONDS

# ANSI: to the start of the line, and erase to its end.
_ERASE_LINE = "\r\x1b[K"
_DEFAULT_COLUMNS = 80


class Terminal:
    """Prints to a stream and keeps a status line below what was printed."""

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stdout
        self._is_live = self._stream.isatty()
        self._status = ""
        self._clock = clock
        self._last_line = clock()

    @property
    def is_live(self) -> bool:
        """Whether a terminal is attached."""
        return self._is_live

    def line(self, text: str = "") -> None:
        """A line that stays."""
        self._erase()
        self._stream.write(f"{text}\n")
        self._draw()
        self._last_line = self._clock()

    def block(self, lines: Sequence[str], *, replaces: int) -> None:
        """Lines that take the place of the last ones; on a terminal only."""
        self._erase()
        if replaces:
            self._stream.write(f"\x1b[{replaces}F\x1b[J")
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._draw()

    def status(self, text: str) -> None:
        """Replace the line at the bottom; an empty text removes it."""
        if not self._is_live or text == self._status:
            return
        self._erase()
        columns = shutil.get_terminal_size((_DEFAULT_COLUMNS, 24)).columns
        self._status = text[: columns - 1]  # a wrapped line could not be erased
        self._draw()

    def progress(self, text: str) -> None:
        """How far long work has come: the line at the bottom, or a plain one from time to time."""
        if self._is_live:
            self.status(text)
        elif text and self._clock() - self._last_line >= PLAIN_SECONDS:
            self.line(text)

    def _erase(self) -> None:
        if self._status:
            self._stream.write(_ERASE_LINE)

    def _draw(self) -> None:
        self._stream.write(self._status)
        self._stream.flush()


def make_table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Rows as lines of columns, some of them to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
