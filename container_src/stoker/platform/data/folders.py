"""A folder of this machine as the source of a channel: what is in it, and what a job may see."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.platform.data.confined import Entry, Parts, make_folder, walk, write_file
from stoker.platform.data.failures import DownloadFailed, make_disk_fix, say
from stoker.platform.data.sync import Fingerprint, make_fingerprint

_MOST_NAMED = 3
_CHUNK_BYTES = 64 << 20  # so that progress is seen
# How kernels and file systems say that they cannot do it, between these two files at least.
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file of this machine that a channel has."""

    parts: Parts
    """Its path below the channel."""

    path: Path
    size_bytes: int


@dataclass(kw_only=True, slots=True)
class FolderContent:
    """What a folder held when it was read."""

    folder: Path
    files: list[SourceFile] = field(default_factory=list)
    """Regular files, those behind links out of the folder included, in the order of keys."""

    links: dict[Parts, str] = field(default_factory=dict)
    """Links within the folder → their relative targets."""

    replaced: set[Parts] = field(default_factory=set)
    """Links that would not lead to their targets where the job sees them."""

    left_out: dict[Parts, str] = field(default_factory=dict)
    """What no job can use → why."""

    prints: dict[Parts, Fingerprint] = field(default_factory=dict)
    """The identity of each file."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def find_changes(self) -> list[str]:
        """The names of files that are not as they were."""
        now = read_folder(self.folder).prints
        return name_changes(self.prints, now)

    def explain(self) -> Iterator[str]:
        """In one line each, what a job does not see as it is in the folder."""
        if self.left_out:
            named = [f"{'/'.join(p)} ({why})" for p, why in self.left_out.items()]
            yield f"{_shorten(named)} of {self.folder} left out"


def name_changes(
    before: Mapping[Parts, Fingerprint], now: Mapping[Parts, Fingerprint]
) -> list[str]:
    """The names of files that came, went or changed."""
    differing = (p for p in before.keys() | now.keys() if before.get(p) != now.get(p))
    return ["/".join(parts) for parts in sorted(differing)]


def explain_changes(channel: str, folder: Path, names: Sequence[str]) -> str:
    """One line about data that changed while a job read it."""
    return (
        f"channel {channel!r}: {_shorten(names)} of {folder} changed while the job read it: "
        "it may have seen both versions; fix: give a running job a folder that does not change"
    )


def _shorten(names: Sequence[str]) -> str:
    # A name need not be UTF-8; a log is.
    shown = [name.encode(errors="replace").decode() for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def read_folder(folder: Path) -> FolderContent:
    """Look at everything in a folder.

    Raises:
        DownloadFailed: it is not there, or a folder in it cannot be read.
    """
    top = folder.resolve()
    # To the walk below, a folder that vanished is one that has nothing in it.
    if not top.is_dir():
        raise DownloadFailed(
            f"{folder} is no longer there",
            fix="leave the folders of a job in place until it has ended; submit it again",
        )
    content = FolderContent(folder=folder)
    try:
        for entry in walk(top):
            _take(entry, top, content)
    except OSError as error:
        raise DownloadFailed(
            f"{folder} cannot be read: {say(error)}", fix=make_disk_fix(error, folder)
        ) from error
    # As S3 lists keys: by bytes, whatever folder they are in.
    content.files.sort(key=lambda file: os.fsencode("/".join(file.parts)))
    return content


def _take(entry: Entry, top: Path, content: FolderContent) -> None:
    path = top.joinpath(*entry.parts)
    if entry.is_file:
        _add_file(content, entry.parts, path, entry.status)
    elif entry.is_link:
        _take_link(entry.parts, path, top, content)
    elif not entry.is_folder:
        content.left_out[entry.parts] = "not a file"


def _add_file(content: FolderContent, parts: Parts, path: Path, status: os.stat_result) -> None:
    file = SourceFile(parts=parts, path=path, size_bytes=status.st_size)
    content.files.append(file)
    content.prints[parts] = make_fingerprint(status)


def _take_link(parts: Parts, path: Path, top: Path, content: FolderContent) -> None:
    """A link that stays in the folder stays a link; of one that leaves it, the file is taken."""
    try:
        target, status = path.resolve(strict=True), path.stat()
    except (OSError, RuntimeError):  # nothing is there, or links in a circle
        content.left_out[parts] = "a link to nothing"
        return
    if target.is_relative_to(top):
        written = os.readlink(path)
        here = posixpath.join("/", *parts[:-1])
        content.links[parts] = posixpath.relpath(
            posixpath.join("/", *target.relative_to(top).parts), here
        )
        if written.startswith("/") or not _stays(written, here):
            content.replaced.add(parts)
    elif stat.S_ISREG(status.st_mode):
        _add_file(content, parts, target, status)
        content.replaced.add(parts)
    else:
        content.left_out[parts] = "a link to a folder elsewhere: make it a channel of its own"


def _stays(target: str, here: str) -> bool:
    """Whether a relative link needs no folder above the channel's own."""
    depth = len([part for part in here.split("/") if part])
    for part in target.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return False
    return True


def copy_folder(
    content: FolderContent,
    share: Collection[Parts],
    base: Path,
    parts: Parts,
    *,
    on_bytes: Callable[[int], object],
) -> None:
    """Make a copy of a share of the files, and of all links; `on_bytes` counts.

    Raises:
        OSError: a file cannot be read, or the copy not written.
    """
    for file in content.files:
        if file.parts in share:
            copy_file(file.path, base, parts + file.parts, on_bytes=on_bytes)
    for place, target in content.links.items():
        _make_link(base, parts + place, target)


def make_patch(content: FolderContent, share: Collection[Parts], base: Path, parts: Parts) -> bool:
    """Make the layer that corrects a folder: what is not for the job is hidden, links repaired.

    Returns:
        Whether anything had to be corrected.

    Raises:
        OSError: the machine does not allow it.
    """
    make_folder(base, parts)
    hidden = [file.parts for file in content.files if file.parts not in share]
    for place in (*content.left_out, *hidden):
        _make_whiteout(base, parts + place)
    for file in content.files:
        if file.parts in content.replaced and file.parts in share:
            copy_file(file.path, base, parts + file.parts)
    for place, target in content.links.items():
        if place in content.replaced:
            _make_link(base, parts + place, target)
    return bool(content.left_out or hidden or content.replaced)


def copy_file(
    source: Path, base: Path, parts: Parts, *, on_bytes: Callable[[int], object] = int
) -> None:
    """Copy a file; where the file system can, its blocks are shared. `on_bytes` counts."""
    with source.open("rb") as reading, write_file(base, parts) as writing:
        try:
            while copied := os.copy_file_range(reading.fileno(), writing.fileno(), _CHUNK_BYTES):
                on_bytes(copied)
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
            while chunk := reading.read(1 << 20):
                writing.write(chunk)
                on_bytes(len(chunk))


def _make_whiteout(base: Path, parts: Parts) -> None:
    """What overlayfs takes for "nothing is here": a device 0/0, which any user may make."""
    make_folder(base, parts[:-1])
    os.mknod(base.joinpath(*parts), stat.S_IFCHR, os.makedev(0, 0))


def _make_link(base: Path, parts: Parts, target: str) -> None:
    make_folder(base, parts[:-1])
    os.symlink(target, base.joinpath(*parts))
