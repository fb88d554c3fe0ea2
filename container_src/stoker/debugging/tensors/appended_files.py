"""Files to which pieces of memory are appended: past the page cache, or with few system calls."""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np

from stoker.storage.direct_file import DirectFile, whole_blocks

# The size measured in decision 26.
_BUFFER_BYTES = 8 << 20


class AppendedFile(ABC):
    """A file that is written from its beginning to its end, and whole once it is closed."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """Of everything appended so far, written or not."""

    @abstractmethod
    def append(self, piece: bytes | memoryview) -> None:
        """Adds one piece."""

    @abstractmethod
    def flush(self) -> None:
        """Writes everything that was appended."""

    @abstractmethod
    def close(self) -> None:
        """Closes the file, as far as it is written."""

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
            self.close()


class BufferedFile(AppendedFile):
    """Past the page cache, by way of one buffer. A piece may change as soon as it is appended."""

    def __init__(self, path: str) -> None:
        super().__init__()
        # Memory that was never touched is slow: one buffer serves for file after file.
        self._memory = _SPARE.pop() if _SPARE else _make_buffer()
        self._file = DirectFile(path)
        self._buffer = np.frombuffer(self._memory, np.uint8)
        self._filled = 0
        self._written = 0

    def append(self, piece: bytes | memoryview) -> None:
        """Adds one piece."""
        size_bytes, start = len(piece), 0
        self.size_bytes += size_bytes
        content = np.frombuffer(piece, np.uint8)
        while start < size_bytes:
            taken = min(size_bytes - start, _BUFFER_BYTES - self._filled)
            # NumPy, since it lets other threads run while it copies; memoryview does not.
            np.copyto(
                self._buffer[self._filled : self._filled + taken], content[start : start + taken]
            )
            self._filled += taken
            start += taken
            if self._filled == _BUFFER_BYTES:
                self._write()

    def flush(self) -> None:
        """Writes everything that was appended; nothing can be appended afterwards."""
        self._write()
        self._file.end(self.size_bytes)

    def close(self) -> None:
        """Closes the file and keeps its buffer for another."""
        self._file.close()
        if not _SPARE:
            _SPARE.append(self._memory)

    def _write(self) -> None:
        self._file.write(memoryview(self._memory)[: whole_blocks(self._filled)], self._written)
        self._written += self._filled
        self._filled = 0


_SPARE: list[mmap.mmap] = []


def _make_buffer() -> mmap.mmap:
    # Private: forked processes must not write into each other's.
    buffer = mmap.mmap(-1, _BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages
        buffer.madvise(mmap.MADV_HUGEPAGE)
    return buffer


_JOIN_BYTES = 16 << 10
"""Smaller pieces are copied together: a piece of its own costs more than that."""
_MOST_PIECES = 512
"""For one call; the system takes 1024."""
_MOST_BYTES = 32 << 20
"""For one call. The interpreter is free meanwhile, and each call waits to get it back."""


class GatheredFile(AppendedFile):
    """Written from where the pieces are: they must not change before it is closed or flushed."""

    def __init__(self, path: str) -> None:
        super().__init__()
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
            # A copy: `_small` is filled again before the pieces are written.
            self._pieces.append(bytes(self._small))
            self._small.clear()

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def _drop(pieces: list[bytes | memoryview], written_bytes: int) -> None:
    """Removes what was written: the system may stop anywhere."""
    whole = 0
    for piece in pieces:
        if len(piece) > written_bytes:
            break
        written_bytes -= len(piece)
        whole += 1
    del pieces[:whole]
    if written_bytes:
        pieces[0] = memoryview(pieces[0])[written_bytes:]
