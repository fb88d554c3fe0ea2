"""Files below a folder that a job controls: links are not followed, any mode is handled."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stoker.contract.upload_markers import IGNORED

Parts = tuple[str, ...]
"""A path below the base, part by part."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the opening of a FIFO that took a file's place would never return.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing found below a folder, as it was at that moment."""

    parts: Parts
    status: os.stat_result

    @property
    def name(self) -> str:
        """The path below the folder, with slashes."""
        return "/".join(self.parts)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


def parse_parts(path: str) -> Parts | None:
    """The parts of a relative path; None if it is not one, or would leave its folder."""
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    return parts


@contextmanager
def open_folder(base: Path, parts: Parts, *, make: bool = False) -> Iterator[int]:
    """The descriptor of a folder below the base.

    Raises:
        OSError: it is not there, or a part of the path is a link or a file.
    """
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            # Part by part, as O_NOFOLLOW is about the last part of a path only.
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(base: Path, parts: Parts) -> BinaryIO:
    """A regular file, for reading.

    Raises:
        OSError: it is not there, or not a regular file.
    """
    with open_folder(base, parts[:-1]) as folder:
        descriptor = os.open(parts[-1], _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", "/".join(parts))
    return os.fdopen(descriptor, "rb", buffering=0)


def read_start(base: Path, parts: Parts, size_bytes: int) -> bytes:
    """The first bytes of a regular file; none if there is no such file."""
    try:
        with open_file(base, parts) as file:
            return file.read(size_bytes)
    except OSError:
        return b""


@contextmanager
def write_file(base: Path, parts: Parts) -> Iterator[BinaryIO]:
    """A new file in place of what was there; no reader sees half of it. Folders are made."""
    part = f".{secrets.token_hex(8)}{IGNORED}"
    with open_folder(base, parts[:-1], make=True) as folder:
        descriptor = os.open(part, _NEW_FILE, 0o644, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
            # In the folder that was opened: if the job moves it meanwhile, the file goes with it.
            os.replace(part, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def make_folder(base: Path, parts: Parts) -> None:
    """Make a folder and those above it."""
    with open_folder(base, parts, make=True):
        pass


def make_fresh_folder(base: Path, parts: Parts) -> None:
    """An empty folder in place of whatever was there."""
    with open_folder(base, parts[:-1], make=True) as folder:
        _remove(parts[-1], folder)
        os.mkdir(parts[-1], dir_fd=folder)


def remove_file(base: Path, parts: Parts) -> None:
    """Remove a file or link; none there is no error."""
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        open_folder(base, parts[:-1]) as folder,
    ):
        os.unlink(parts[-1], dir_fd=folder)


def read_link(base: Path, parts: Parts) -> str:
    """Where a link points, as it is written."""
    with open_folder(base, parts[:-1]) as folder:
        return os.readlink(parts[-1], dir_fd=folder)


def walk(base: Path, parts: Parts = ()) -> Iterator[Entry]:
    """Everything below a folder in the order of names, a folder before its contents.

    What vanishes meanwhile is left out: the job may still be at work.
    """
    # Only the base's own path is trusted, so that each folder is opened again from there: that
    # costs little and no chain of open descriptors limits the depth.
    pending: list[Parts] = [()]
    while pending:
        here = pending.pop()
        folders = []
        for entry in _list(base, parts, here):
            if entry.is_folder:
                folders.append(entry.parts)
            yield entry
        pending += reversed(folders)


def _list(base: Path, parts: Parts, here: Parts) -> list[Entry]:
    found = []
    try:
        with open_folder(base, parts + here) as folder:
            for name in sorted(os.listdir(folder)):
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    found.append(Entry((*here, name), status))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
    return found


def _remove(name: str, folder: int) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


_READ_FILE, _READ_FOLDER, _ALL = 0o400, 0o500, 0o700


def make_readable(base: Path, parts: Parts) -> None:
    """Give the owner the right to read everything below a folder; links are left alone.

    In a container the job was root, which needs no such right; the user who packs its files does.
    """
    for entry in walk(base, parts):
        needed = _READ_FOLDER if entry.is_folder else _READ_FILE
        mode = stat.S_IMODE(entry.status.st_mode)
        if not entry.is_link and mode & needed != needed:
            with open_folder(base, parts + entry.parts[:-1]) as folder:
                os.chmod(entry.parts[-1], mode | needed, dir_fd=folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all that is in it.

    Inner folders are moved to the top before they are emptied: so neither the depth of the stack
    nor the length of a path limits how deep a tree may be.

    Raises:
        OSError: something belongs to another user; FileNotFoundError: there is no such folder.
    """
    folder.chmod(_ALL)
    with open_folder(folder, ()) as top:
        while names := os.listdir(top):
            for name in names:
                _remove_entry(name, top)
    folder.rmdir()


def _remove_entry(name: str, top: int) -> None:
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, _ALL, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in os.listdir(inner):
            if _is_folder(child, inner):
                os.chmod(child, _ALL, dir_fd=inner)  # else it could not be moved
                os.rename(child, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str, above: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)


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
