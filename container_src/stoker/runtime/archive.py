"""Unpacking source archives that may come from anywhere."""

from __future__ import annotations

import os
import tarfile

from stoker.errors import ArchiveUnsafe, CodeMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_MODE_BITS = 0o755  # no setuid, no files only root may read


def unpack(archive: Path, target: Path) -> int:
    """Unpacks a tar archive of any compression below `target`.

    Returns:
        How many files and folders were written.

    Raises:
        ArchiveUnsafe: a member would lie or point outside the target. Nothing is written then.
        CodeMissing: not an archive, or a damaged one.
    """
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            for member in members:
                _check(member, archive)
            for member in members:
                _refuse_detour(member, target, archive)
                member.mode = (member.mode & _MODE_BITS) | 0o600
                tar.extract(member, target, numeric_owner=True, set_attrs=member.isreg())
            return len(members)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CodeMissing(
            f"{archive.name} could not be unpacked: {error}",
            fix="make it with `tar -czf sourcedir.tar.gz -C src .`; check that the disk has room",
        ) from None


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise _unsafe(archive, member, "is a device or FIFO")
    if _leaves(member.name):
        raise _unsafe(archive, member, "lies outside the archive's own folder")
    if member.issym() and _leaves(os.path.join(os.path.dirname(member.name), member.linkname)):
        raise _unsafe(archive, member, f"links to {member.linkname}, outside the folder")
    if member.islnk() and _leaves(member.linkname):
        raise _unsafe(archive, member, f"links to {member.linkname}, outside the folder")


def _leaves(name: str) -> bool:
    return os.path.isabs(name) or os.path.normpath(name).split("/")[0] == ".."


def _refuse_detour(member: tarfile.TarInfo, target: Path, archive: Path) -> None:
    """A chain of harmless links, or one that lay there before, can still lead outside."""
    parent = os.path.realpath(os.path.join(target, os.path.dirname(member.name)))
    root = os.path.realpath(target)
    if parent != root and not parent.startswith(root + os.sep):
        raise _unsafe(archive, member, "would be written through a link that leaves the folder")


def _unsafe(archive: Path, member: tarfile.TarInfo, why: str) -> ArchiveUnsafe:
    return ArchiveUnsafe(
        f"{archive.name} is refused: {member.name!r} {why}",
        fix="pack the source directory itself: tar -czf sourcedir.tar.gz -C src .",
    )
