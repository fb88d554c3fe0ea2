"""New index files, found without looking at the old ones again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from stoker.debugging.tensors.index import Meta, read_meta
from stoker.debugging.tensors.layout import INDEX, parse_index_name
from stoker.errors import TensorsUnreadable

_SETTLED_SECONDS = 3.0
"""A folder whose time has been the same for that long has nothing new. By our clock, not by its:
a disk on the network has its own; and times of folders are as coarse as a second there."""


class Found(NamedTuple):
    """An index file that was not there before."""

    step: int
    worker: str
    path: str
    meta: Meta


class IndexFolder:
    """Remembers what it has seen; steps lie in folders of a thousand."""

    def __init__(self, folder: str) -> None:
        self._root = f"{folder}/{INDEX}"
        self._changes: dict[str, tuple[int, float]] = {}
        """Folder → its time of change, and when we have first seen it."""
        self._seen: dict[str, set[str]] = {}
        self._refused: dict[str, tuple[int, int]] = {}
        """Files that could not be read → time and size: they may be whole later."""
        self.damaged: dict[str, TensorsUnreadable] = {}
        """The same files → what is wrong with them."""

    def find_new(self) -> list[Found]:
        """In the order of their steps."""
        found = [f for folder in self._changed() for f in self._list(folder)]
        found.sort(key=lambda f: (f.step, f.worker))
        for new in found:  # only now: what ends this early, such as too little memory, loses none
            folder, _, name = new.path.rpartition("/")
            self._seen[folder].add(name)
        return found

    def _changed(self) -> Iterator[str]:
        now = time.monotonic()
        for folder in _entries(self._root):
            try:
                changed_ns = folder.stat().st_mtime_ns
            except OSError:
                continue
            known_ns, since = self._changes.get(folder.path, (0, now))
            if known_ns != changed_ns:
                self._changes[folder.path] = (changed_ns, now)
            elif now - since > _SETTLED_SECONDS:
                continue
            yield folder.path

    def _list(self, folder: str) -> Iterator[Found]:
        seen = self._seen.setdefault(folder, set())
        for name in _names(folder):
            if name in seen:
                continue
            parsed = parse_index_name(name)
            if parsed is None:
                continue
            found = self._read(*parsed, f"{folder}/{name}")
            if found is None:
                self._changes.pop(folder, None)  # it may become readable without a new name
            else:
                yield found

    def _read(self, step: int, worker: str, path: str) -> Found | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        version = (status.st_mtime_ns, status.st_size)
        if self._refused.get(path) == version:
            return None
        try:
            found = Found(step, worker, path, read_meta(path))
        except TensorsUnreadable as error:
            self._refused[path] = version
            self.damaged[path] = error
            return None
        self._refused.pop(path, None)
        self.damaged.pop(path, None)
        return found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
