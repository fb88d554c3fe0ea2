"""The first bytes of a file that somebody may still write to, as a body to upload."""

from __future__ import annotations

import io
import os


class FileWindow(io.RawIOBase):
    """Exactly `size_bytes` of a file: what is appended meanwhile is left out.

    If the file shrinks, zeros take the place of what is gone: a request whose announced length
    never comes would hang. The caller sees that the file has changed, and uploads it again.
    """

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}
        self._position = max(0, start[whence] + offset)
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._size_bytes - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        content = os.pread(self._descriptor, wanted, self._position)
        if not content:
            content = bytes(wanted)
        self._position += len(content)
        return content

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # any writable buffer
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)
