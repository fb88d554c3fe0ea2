"""From memory to disk past the page cache: quicker, and it leaves the cache to the data."""

from __future__ import annotations

import errno
import fcntl
import os

from stoker.checkpoints.checksums import PIECE_BYTES, checksum_named, hexadecimal

_BLOCK_BYTES = 4096
# How tmpfs, FUSE and some network file systems say that they know no direct I/O.
_NOT_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)


def write_direct(
    path: str, buffer: memoryview, size_bytes: int, *, checksum: str
) -> tuple[str, ...]:
    """Writes a buffer to a file, durably, and returns the checksum of each of its pieces.

    One piece at a time and all in the calling thread: the kernel cuts a piece into requests enough
    to keep a disk busy, and more threads would take more of caches and memory from the training.

    Args:
        path: the file; it is made, or what is there is written over.
        buffer: aligned to blocks, and as long as whole blocks of `size_bytes` are.
        size_bytes: how much of the buffer is meant.
        checksum: name of the function.

    Raises:
        OSError: a full disk, for one.
    """
    checksum_of = checksum_named(checksum)
    checksums = []
    with _DirectFile(path) as file:
        for start in range(0, size_bytes, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size_bytes)
            checksums.append(hexadecimal(checksum_of(buffer[start:end])))
            file.write(buffer, start, end)
        file.finish(size_bytes)
    return tuple(checksums)


class _DirectFile:
    """An open file that is written in whole blocks, until it turns out to know no direct I/O."""

    def __init__(self, path: str) -> None:
        self._handle, self._is_direct = _open_direct(path)

    def __enter__(self) -> _DirectFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def write(self, buffer: memoryview, start: int, end: int) -> None:
        stop = whole_blocks(end) if self._is_direct else end
        while start < stop:
            start += self._put(buffer[start:stop], start)

    def finish(self, size_bytes: int) -> None:
        """Cuts off what was longer, and returns when all of it is on the disk."""
        os.ftruncate(self._handle, size_bytes)
        os.fsync(self._handle)

    def _put(self, piece: memoryview, start: int) -> int:
        """Writes, and returns how much; some file systems refuse only now what they opened."""
        try:
            return os.pwrite(self._handle, piece, start)
        except OSError as error:
            if not self._is_direct or error.errno not in _NOT_DIRECT:
                raise
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self._is_direct = False
        return os.pwrite(self._handle, piece, start)


def whole_blocks(size_bytes: int) -> int:
    """As much as direct I/O writes to hold so many bytes."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _open_direct(path: str) -> tuple[int, bool]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644), True
    except OSError as error:
        if error.errno not in _NOT_DIRECT:
            raise
        return os.open(path, flags, 0o644), False
