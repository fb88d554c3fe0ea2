"""From memory to disk past the page cache: quicker, and it leaves the cache to the data."""

from __future__ import annotations

import errno
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor

from stoker.checkpoints.checksums import PIECE_BYTES, checksum_named, hexadecimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future

BLOCK_BYTES = 4096
# How tmpfs, FUSE and some network file systems say that they know no direct I/O.
_NOT_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)


class PieceWriter:
    """Writes a buffer to a file while it is still being filled, each piece with its checksum.

    One piece at a time: the kernel cuts it into requests enough to keep a disk busy, and more
    threads would take more memory bandwidth, and turns on the cores, from the training.

    Example:
        >>> with PieceWriter(path, buffer, size_bytes, checksum="crc32c") as writer:
        ...     writer.filled_up_to(size_bytes)
        ...     checksums = writer.finish()
    """

    def __init__(self, path: str, buffer: memoryview, size_bytes: int, *, checksum: str) -> None:
        """Opens the file.

        Args:
            path: the file; it is made, or what is there is written over.
            buffer: aligned to blocks, and as long as whole blocks of `size_bytes` are.
            size_bytes: how much of the buffer is meant.
            checksum: name of the function.
        """
        self._buffer = buffer
        self._size_bytes = size_bytes
        self._checksum = checksum_named(checksum)
        self._handle, self._is_direct = _open_direct(path)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stoker-disk")
        self._pieces: list[Future[str]] = []

    def __enter__(self) -> PieceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        os.close(self._handle)

    def filled_up_to(self, position: int) -> None:
        """Everything before this position is final: whole pieces of it may go."""
        while True:
            start = len(self._pieces) * PIECE_BYTES
            end = min(start + PIECE_BYTES, self._size_bytes)
            if start >= self._size_bytes or end > position:
                return
            self._pieces.append(self._pool.submit(self._write, start, end))

    def finish(self) -> tuple[str, ...]:
        """Waits until all is on the disk, and returns the checksums.

        Raises:
            OSError: a full disk, for one.
        """
        checksums = tuple(piece.result() for piece in self._pieces)
        os.ftruncate(self._handle, self._size_bytes)
        os.fsync(self._handle)
        return checksums

    def _write(self, start: int, end: int) -> str:
        checksum = self._checksum(self._buffer[start:end])
        stop = _whole_blocks(end) if self._is_direct else end
        while start < stop:
            start += self._put(start, stop)
        return hexadecimal(checksum)

    def _put(self, start: int, stop: int) -> int:
        """Writes, and returns how much; some file systems refuse only now what they opened."""
        try:
            return os.pwrite(self._handle, self._buffer[start:stop], start)
        except OSError as error:
            if not self._is_direct or error.errno not in _NOT_DIRECT:
                raise
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self._is_direct = False
        return os.pwrite(self._handle, self._buffer[start:stop], start)


def _whole_blocks(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


def _open_direct(path: str) -> tuple[int, bool]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644), True
    except OSError as error:
        if error.errno not in _NOT_DIRECT:
            raise
        return os.open(path, flags, 0o644), False
