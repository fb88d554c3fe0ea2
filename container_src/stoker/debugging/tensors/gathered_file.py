"""A file that is written from many pieces of memory, by few system calls and without copies."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

_JOIN_BYTES = 16 << 10
"""Smaller pieces are copied together: a piece of its own costs more than that."""
_MOST_PIECES = 512
"""For one call; the system takes 1024."""
_MOST_BYTES = 32 << 20
"""For one call. The interpreter is free meanwhile, and each call waits to get it back."""


class GatheredFile:
    """Appends; what was appended must not change before the file is closed or flushed."""

    def __init__(self, path: str) -> None:
        self.size_bytes = 0
        """Of everything appended so far, written or not."""
        self._small = bytearray()
        self._pieces: list[bytes | memoryview] = []
        self._pending_bytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)

    def append(self, piece: bytes | memoryview) -> None:
        """Adds one piece; a large one is written from where it is."""
        size_bytes = len(piece)
        self.size_bytes += size_bytes
        self._pending_bytes += size_bytes
        if size_bytes <= _JOIN_BYTES:
            self._small += piece
        else:
            self._keep_small()
            self._pieces.append(piece)
        if self._pending_bytes >= _MOST_BYTES or len(self._pieces) >= _MOST_PIECES - 1:
            self.flush()

    def flush(self) -> None:
        """Hands everything to the system."""
        self._keep_small()
        pieces, self._pieces, self._pending_bytes = self._pieces, [], 0
        while pieces:
            _drop(pieces, os.writev(self._descriptor, pieces))

    def _keep_small(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            os.close(self._descriptor)


def _drop(pieces: list[bytes | memoryview], written_bytes: int) -> None:
    """Takes away what was written: the system may stop anywhere."""
    whole = 0
    for piece in pieces:
        if len(piece) > written_bytes:
            break
        written_bytes -= len(piece)
        whole += 1
    del pieces[:whole]
    if written_bytes:
        pieces[0] = memoryview(pieces[0])[written_bytes:]
