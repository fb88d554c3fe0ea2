"""Files written past the page cache: faster for large ones, and the cache is left to the data."""

from __future__ import annotations

import errno
import fcntl
import os

# O_DIRECT needs multiples of the disk's sector: 512 or 4,096 bytes.
_BLOCK_BYTES = 4096
# How tmpfs, FUSE and some network file systems say that they know no direct writing.
_NOT_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)


class DirectFile:
    """An open file that takes whole blocks of aligned memory.

    Where the file system knows no direct writing, the same calls write through the page cache.
    """

    def __init__(self, path: str, *, mode: int = 0o666) -> None:
        """Opens a file or makes it; what is in it stays until it is written over, or `end`.

        Raises:
            OSError: it cannot be opened, or is a link.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        self._is_direct = True
        try:
            self._descriptor = os.open(path, flags | os.O_DIRECT, mode)
        except OSError as error:
            if error.errno not in _NOT_DIRECT:
                raise
            self._descriptor, self._is_direct = os.open(path, flags, mode), False

    def write(self, memory: memoryview, start: int) -> None:
        """Writes memory to the file, from the byte `start` on; both are whole blocks.

        Raises:
            OSError: a full disk, for one.
        """
        while memory:
            written = self._put(memory, start)
            memory, start = memory[written:], start + written

    def end(self, size_bytes: int) -> None:
        """Cuts off what is behind the content: the rest of the last block, or of an older file."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """Returns when all of it is on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _put(self, memory: memoryview, start: int) -> int:
        """Writes, and returns how much; some file systems refuse only now what they opened."""
        try:
            return os.pwrite(self._descriptor, memory, start)
        except OSError as error:
            if not self._is_direct or error.errno not in _NOT_DIRECT:
                raise
        # The same descriptor continues through the page cache, from the byte at which it was
        # refused.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self._is_direct = False
        return os.pwrite(self._descriptor, memory, start)


def whole_blocks(size_bytes: int) -> int:
    """As much as direct writing needs to hold so many bytes."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
