"""Folders into a .tar.gz, quickly: isal's deflate in several threads, straight to the file."""

from __future__ import annotations

import io
import os
import posixpath
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from isal import igzip_threaded

from stoker.host.platform.around.confined import Entry, open_file, read_link
from stoker.host.platform.around.merging import Merged

_LEVEL = 2
"""Weights are noise in their lower bits: higher levels take longer and gain nothing."""
_MOST_THREADS = 8
_SPARE_THREADS = 2
"""Beyond one per core: each thread's queue holds a single block, and one may wait for the disk."""
_BLOCK_BYTES = 1 << 18
"""Larger blocks come fresh from the kernel each time: twice its work for the same archive."""
_MODE_BITS = 0o777


class _Writable(Protocol):
    def write(self, content: bytes, /) -> int: ...


def pack(folder: Merged, target: Path) -> None:
    """Write everything of a folder into an archive.

    Links that stay within the folder are kept as links. What would lead out of it, and sockets,
    pipes and devices are left out, and named in `folder.skipped`.

    Raises:
        OSError: a file cannot be read, or the disk is full.
    """
    seen_as = posixpath.join("/opt/ml", *folder.parts)
    with _open_archive(target) as archive:
        for host_dir, entry in folder:
            if entry.is_file:
                _add_file(archive, host_dir, entry, folder)
            elif entry.is_folder:
                archive.addfile(_make_member(entry, entry.status, tarfile.DIRTYPE))
            elif entry.is_link:
                _add_link(archive, host_dir, entry, folder, seen_as)
            else:
                folder.skip(entry, "neither a file, a folder nor a link")


@contextmanager
def _open_archive(target: Path) -> Iterator[tarfile.TarFile]:
    threads = min(_MOST_THREADS, (os.cpu_count() or 1) + _SPARE_THREADS)
    with target.open("wb", buffering=0) as file:
        disk = _Disk(file)
        with (
            igzip_threaded.open(  # type: ignore[no-untyped-call]  # it has no types
                disk, "wb", compresslevel=_LEVEL, threads=threads, block_size=_BLOCK_BYTES
            ) as packed,
            tarfile.TarFile(
                fileobj=_Stream(packed, disk),  # type: ignore[arg-type]  # it only writes
                mode="w",
                copybufsize=_BLOCK_BYTES,
            ) as archive,
        ):
            yield archive
        disk.require_good()


class _Disk:
    """The file, for the compressor's own thread: an error there would hang it for ever.

    So a write that fails is kept, later ones are dropped, and whoever feeds the compressor asks.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._error: OSError | None = None

    def write(self, content: bytes) -> int:
        view = memoryview(content)
        try:
            while view and not self._error:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._error = error
        return len(content)

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Whoever has opened the file closes it."""

    def require_good(self) -> None:
        if self._error:
            raise self._error


class _Stream:
    """What tarfile wants of a file; the compressor itself does not know where it is."""

    def __init__(self, packed: _Writable, disk: _Disk) -> None:
        self._packed = packed
        self._disk = disk
        self._position = 0

    def write(self, content: bytes) -> int:
        self._disk.require_good()
        self._packed.write(content)
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position


def _add_file(archive: tarfile.TarFile, host_dir: Path, entry: Entry, folder: Merged) -> None:
    try:
        file = open_file(host_dir, folder.parts + entry.parts)
    except FileNotFoundError:
        return
    with file:
        member = _make_member(entry, os.fstat(file.fileno()), tarfile.REGTYPE)
        archive.addfile(member, file)


def _add_link(
    archive: tarfile.TarFile, host_dir: Path, entry: Entry, folder: Merged, seen_as: str
) -> None:
    target = read_link(host_dir, folder.parts + entry.parts)
    here = posixpath.dirname(posixpath.join(seen_as, entry.name))
    wanted = posixpath.normpath(posixpath.join(here, target))
    if not wanted.startswith(f"{seen_as}/") and wanted != seen_as:
        folder.skip(entry, f"a link out of the folder, to {target}")
        return
    member = _make_member(entry, entry.status, tarfile.SYMTYPE)
    # An absolute one would lead nowhere on the machine that unpacks it.
    member.linkname = posixpath.relpath(wanted, here) if target.startswith("/") else target
    archive.addfile(member)


def _make_member(entry: Entry, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    """Owned by root, as on the service: who ran the platform is nobody's business."""
    member = tarfile.TarInfo(entry.name)
    member.type = kind
    member.size = status.st_size if kind == tarfile.REGTYPE else 0
    member.mode = status.st_mode & _MODE_BITS
    member.mtime = int(status.st_mtime)
    return member
