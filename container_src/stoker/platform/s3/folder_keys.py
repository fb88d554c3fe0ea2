"""The keys of a bucket in their order, read from its folders: files put there by hand count, too.

The names of a folder are kept until its time of change differs, so that the next page of a large
folder costs no second reading of it.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.platform.s3.object_paths import LAST_PIECE, PIECE, decode_name

_MOST_NAMES = 2_000_000
# Above the steps in which a kernel counts time: two changes in one step have the same time.
_SETTLED_NS = 100_000_000
AFTER_ALL = b"\xff"
"""Greater than any byte of a key: `prefix + AFTER_ALL` is behind all keys with that prefix."""


# A part of a key, which ends with a slash if it is a folder's, and the name of the file or folder.
# Tuples, not a class: a folder of 100,000 files is sorted in a tenth of the time.
_Name = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    files: list[tuple[bytes, bytes]]
    """Keys and paths of objects."""

    prefixes: list[bytes]
    next_after: bytes | None
    """The last key or prefix, if there is more."""


class FolderReader:
    """Reads folders; may be used from several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[int, list[_Name]]] = OrderedDict()
        self._count = 0

    def list_page(
        self, folder: bytes, *, prefix: bytes, delimiter: bytes, after: bytes, limit: int
    ) -> Page:
        """The next keys of a bucket, and what the delimiter makes one of.

        Args:
            folder: that of the bucket.
            prefix: with which keys begin.
            delimiter: keys that are the same up to its first place after the prefix are one.
            after: the last key, or common prefix, of the page before.
            limit: the most keys and prefixes.
        """
        page = Page([], [], None)
        last = b""
        # The zero byte is the smallest that can follow: the first key that is greater than
        # `after`.
        lower = max(prefix, after + b"\0" if after else b"")
        while limit:
            for key, path in self.walk(folder, prefix, lower):
                at = key.find(delimiter, len(prefix)) if delimiter else -1
                common = key[: at + len(delimiter)] if at >= 0 else b""
                if common and common <= after:  # on the page before
                    lower = common + AFTER_ALL
                    break
                if len(page.files) + len(page.prefixes) == limit:
                    return Page(page.files, page.prefixes, last)
                last = common or key
                if common:
                    page.prefixes.append(common)
                    lower = common + AFTER_ALL
                    break
                page.files.append((key, path))
            else:
                break
        return page

    def walk(self, folder: bytes, prefix: bytes, lower: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys with the prefix, not less than the lower bound, in their order, with the files."""
        # A stack, not recursion: a key may have 1,024 folders.
        stack = [(folder, b"", self._begin(folder, b"", lower))]
        while stack:
            place, base, names = stack[-1]
            name = next(names, None)
            if name is None:
                stack.pop()
                continue
            part, file = name
            key = base + part
            if not key.startswith(prefix) and not prefix.startswith(key):
                # Names are sorted: no later one can begin with the prefix.
                if key > prefix:
                    stack.pop()
                continue
            path = b"%s/%s" % (place, file)
            if not part.endswith(b"/"):
                if key >= lower and key.startswith(prefix):
                    yield key, path
            elif key >= lower or lower.startswith(key):
                stack.append((path, key, self._begin(path, key, lower)))

    def _begin(self, folder: bytes, base: bytes, lower: bytes) -> Iterator[_Name]:
        names = self._read(folder)
        if not lower.startswith(base):
            return iter(names)
        start = bisect_left(names, (lower[len(base) :], b""))
        # The one before may be the folder that the lower bound is in.
        return (names[at] for at in range(max(start - 1, 0), len(names)))

    def _read(self, folder: bytes) -> list[_Name]:
        try:
            changed_ns = os.stat(folder).st_mtime_ns
            known = self._known.get(folder)
            if known and known[0] == changed_ns:
                return known[1]
            names = sorted(_read_names(folder))
        except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
            return []
        # The time of a folder says nothing about the folders that hold pieces of names.
        has_pieces = any(b"/" in file for _, file in names)
        if time.time_ns() - changed_ns > _SETTLED_NS and not has_pieces:
            self._keep(folder, changed_ns, names)
        return names

    def _keep(self, folder: bytes, changed_ns: int, names: list[_Name]) -> None:
        before = self._known.pop(folder, None)
        self._known[folder] = changed_ns, names
        self._count += len(names) - (len(before[1]) if before else 0)
        while self._count > _MOST_NAMES and len(self._known) > 1:
            self._count -= len(self._known.popitem(last=False)[1][1])


def _read_names(folder: bytes, piece: bytes = b"", below: bytes = b"") -> Iterator[_Name]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if name.startswith(PIECE):
                if is_folder:
                    longer = piece + name.removeprefix(PIECE)
                    yield from _read_names(entry.path, longer, below + name + b"/")
                continue
            if piece:
                if not name.startswith(LAST_PIECE):
                    continue
                part = decode_name(piece + name.removeprefix(LAST_PIECE))
            else:
                part = decode_name(name)
            # Keys are UTF-8; a link could lead anywhere.
            if part is None or not (is_folder or _is_file(entry)) or not _is_utf8(part):
                continue
            yield (part + b"/" if is_folder else part), below + name


def _is_file(entry: os.DirEntry[bytes]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _is_utf8(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_regular(status: os.stat_result) -> bool:
    """Whether it is a file, not a folder or a link."""
    return stat.S_ISREG(status.st_mode)
