"""What a command shows: lines that stay, and one line at the bottom that says where things are.

The line at the bottom exists on a terminal only. In a pipe or a log every line is plain.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence
from typing import TextIO

_ERASE_LINE = "\r\x1b[K"
_DEFAULT_COLUMNS = 80


class Terminal:
    """Prints to a stream and keeps a status line below what was printed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._is_live = self._stream.isatty()
        self._status = ""

    @property
    def is_live(self) -> bool:
        """Whether somebody is watching."""
        return self._is_live

    def line(self, text: str = "") -> None:
        """A line that stays."""
        self._erase()
        self._stream.write(f"{text}\n")
        self._draw()

    def status(self, text: str) -> None:
        """Replace the line at the bottom; an empty text removes it."""
        if not self._is_live or text == self._status:
            return
        self._erase()
        columns = shutil.get_terminal_size((_DEFAULT_COLUMNS, 24)).columns
        self._status = text[: columns - 1]  # a wrapped line could not be erased
        self._draw()

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


def make_size(size_bytes: float) -> str:
    """`512 B`, `1.34 MB`: to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} TB"


def make_duration(seconds: float) -> str:
    """`7 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
