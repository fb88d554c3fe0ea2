"""A file of /proc or of a cgroup, opened once and read again for each sample."""

from __future__ import annotations

import os

_MOST_BYTES = 64 * 1024


class KernelFile:
    """Reads a file whose content the kernel renews at each read; empty if there is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    @property
    def is_there(self) -> bool:
        return self._descriptor >= 0

    def read(self) -> bytes:
        """All of it."""
        if self._descriptor < 0:
            return b""
        try:
            return os.pread(self._descriptor, _MOST_BYTES, 0)
        except OSError:  # no pressure is measured here, or its device has gone
            return b""

    def number(self, default: float = -1.0) -> float:
        """A file that holds one number; `default` for `max`, and where there is none."""
        try:
            return float(self.read())
        except ValueError:
            return default

    def number_after(self, key: bytes, default: float = -1.0) -> float:
        """The number of the line that begins with a key."""
        content = self.read()
        at = 0 if content.startswith(key + b" ") else content.find(b"\n" + key + b" ") + 1
        if not at and not content.startswith(key + b" "):
            return default
        try:
            return float(content[at + len(key) :].split(None, 1)[0])
        except (ValueError, IndexError):
            return default
