"""One change of one file of a wheel."""

from __future__ import annotations

from typing import NamedTuple

UPSTREAM = "1.0.34"


class RepackFailed(Exception):
    """Why it cannot be done. No `StokerError`: this runs where Stoker is not installed yet."""


class Edit(NamedTuple):
    """`old` is in the file exactly once; `new` replaces it."""

    path: str
    why: str
    old: str
    new: str
    until: str = ""
    """If set, everything from `old` to just before this text is replaced. It, too, is there
    exactly once. So a long passage need not be repeated here."""

    def apply(self, text: str) -> str:
        """The file's text with this change.

        Raises:
            RepackFailed: the passage is not there, or more than once.
        """
        start = _find_once(self.path, text, self.old)
        end = _find_once(self.path, text, self.until) if self.until else start + len(self.old)
        if end < start:
            raise RepackFailed(f"{self.path}: {self.until!r} comes before {self.old!r}")
        return text[:start] + self.new + text[end:]


def unexpected(path: str, what: str, count: int) -> RepackFailed:
    """The error for something that is not there exactly once."""
    return RepackFailed(
        f"{path}: expected {what} exactly once, found it {count} times\n"
        "  fix: compare the file with the published one and correct the edit"
    )


def _find_once(path: str, text: str, passage: str) -> int:
    if text.count(passage) != 1:
        raise unexpected(path, repr(passage), text.count(passage))
    return text.index(passage)
