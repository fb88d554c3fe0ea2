"""Files below a folder that a job may change at will: no link in it leads anywhere else.

A job writes its /opt/ml as root, so any part of a path in it may have become a link to the host's
own files. Every part is therefore opened from the one before it, and links are never followed.
Only the base folder is trusted.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
    """A new file in place of what was there; nobody sees half of it. Folders are made."""
    part = f".{secrets.token_hex(8)}.sagemaker-ignore"
    with open_folder(base, parts[:-1], make=True) as folder:
        descriptor = os.open(part, _NEW_FILE, 0o644, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
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
    # Only the base's own path is trusted, so that each folder is opened anew from there: that
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
