"""Unpacking source archives that may come from anywhere.

Python's own `data` filter would do most of this, but the Python of Debian 12 has none.
"""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import tempfile
import zlib

from stoker.contract.upload_markers import IGNORED
from stoker.errors import ArchiveUnsafe, CodeMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_MODE_BITS = 0o755  # no setuid, nothing that others may write
# What tarfile and its decompressors raise for damaged input.
_DAMAGE = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, KeyError, ValueError)


def unpack(archive: Path, target: Path) -> int:
    """Unpacks a tar archive of any compression below `target`.

    It is unpacked aside first: an unsafe or damaged archive leaves nothing in the target.

    Returns:
        How many files and folders were in it.

    Raises:
        ArchiveUnsafe: a member would be or point outside the target.
        CodeMissing: not an archive, a damaged one, or no room for it.
    """
    try:
        # In the target itself: the same file system, so that what is unpacked can be moved.
        with tempfile.TemporaryDirectory(dir=target, suffix=IGNORED) as staging:
            count = _extract(archive, staging)
            _refuse_links_in_the_way(archive, staging, os.fspath(target))
            _move_into(staging, os.fspath(target))
            return count
    except (*_DAMAGE, OSError) as error:
        raise CodeMissing(
            f"{archive.name} could not be unpacked: {error}",
            fix="make it with `tar -czf sourcedir.tar.gz -C src .`; check that the disk has room",
        ) from None


def _extract(archive: Path, staging: str) -> int:
    with tarfile.open(archive) as tar:
        # All names before the first file: one bad name refuses the archive.
        members = tar.getmembers()
        for member in members:
            _check_names(archive, member)
        for member in members:
            _make_way(archive, member, staging)
            member.mode = (member.mode & _MODE_BITS) | (0o700 if member.isdir() else 0o600)
            tar.extract(member, staging, numeric_owner=True, set_attrs=not member.issym())
    for member in members:  # a link made early may lead elsewhere by a link made later
        if member.issym() and not _is_inside(os.path.join(staging, member.name), staging):
            raise _unsafe(archive, member.name, f"links to {member.linkname}, outside the folder")
    return len(members)


def _check_names(archive: Path, member: tarfile.TarInfo) -> None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise _unsafe(archive, member.name, "is a device or FIFO")
    if _leaves(member.name):
        raise _unsafe(archive, member.name, "is outside the archive's own folder")
    start = os.path.dirname(member.name) if member.issym() else ""
    if member.linkname and _leaves(os.path.join(start, member.linkname)):
        raise _unsafe(archive, member.name, f"links to {member.linkname}, outside the folder")


def _leaves(name: str) -> bool:
    return os.path.isabs(name) or os.path.normpath(name).split("/")[0] == ".."


def _make_way(archive: Path, member: tarfile.TarInfo, staging: str) -> None:
    """Sees to it that nothing is written, or linked, through a link that leads outside."""
    path = os.path.join(staging, member.name)
    if not _is_inside(os.path.dirname(path), staging):
        raise _unsafe(
            archive, member.name, "would be written through a link that leaves the folder"
        )
    start = os.path.dirname(path) if member.issym() else staging
    if member.linkname and not _is_inside(os.path.join(start, member.linkname), staging):
        raise _unsafe(archive, member.name, f"links to {member.linkname}, outside the folder")
    # A name may come twice, and the later one counts: but not through what the earlier one made.
    if os.path.islink(path) or (os.path.isfile(path) and not member.isdir()):
        os.remove(path)


def _is_inside(path: str, root: str) -> bool:
    root = os.path.realpath(root)
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def _refuse_links_in_the_way(archive: Path, staging: str, target: str) -> None:
    for folder, names, _ in os.walk(staging):
        for name in names:
            there = os.path.join(target, os.path.relpath(os.path.join(folder, name), staging))
            if os.path.islink(there):
                raise _unsafe(archive, name, f"would be written through a link: {there}")


def _move_into(source: str, target: str) -> None:
    for entry in list(os.scandir(source)):
        there = os.path.join(target, entry.name)
        if os.path.isdir(there) and not os.path.islink(there):
            if entry.is_dir(follow_symlinks=False):
                _move_into(entry.path, there)
                continue
            # Here a file or a link replaces a folder, which os.replace() cannot.
            shutil.rmtree(there)
        os.replace(entry.path, there)


def _unsafe(archive: Path, name: str, why: str) -> ArchiveUnsafe:
    return ArchiveUnsafe(
        f"{archive.name} is refused: {name!r} {why}",
        fix="pack the source directory itself: tar -czf sourcedir.tar.gz -C src .",
    )
