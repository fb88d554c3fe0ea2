"""Index files: what one worker saved at one step and where; new ones found incrementally."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker.contract.files import read_regular
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors.event_files import FIX, Location
from stoker.debugging.tensors.layout import (
    INDEX,
    INDEX_LIMIT_BYTES,
    NOT_WHOLE,
    parse_index_name,
    parse_reduction_name,
)
from stoker.errors import TensorsUnreadable

# The bytes with which smdebug's and our writer begin an index; any other form is read as JSON.
_META = re.compile(rb'\{"meta": \{"mode": "(\w+)", "mode_step": (\d+)[,}]')
_META_BYTES = 128


class Meta(NamedTuple):
    """When a step was, in the count of its mode."""

    mode: Mode
    mode_step: int


class Entry:
    """What the index says of one tensor."""

    __slots__ = ("location", "reductions", "shape")

    def __init__(self) -> None:
        self.location: Location | None = None
        self.shape: tuple[int, ...] | None = None
        self.reductions: dict[str, tuple[str, Location]] = {}
        """By name; with the name of the record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """One index file."""

    path: str
    meta: Meta
    events: str
    """The file with the tensors, relative to the folder."""
    entries: dict[str, Entry]


def read_meta(path: str) -> Meta:
    """The first line of an index, without the rest, which may be long.

    Raises:
        TensorsUnreadable: it is damaged.
    """
    try:
        found = _META.match(read_regular(path, _META_BYTES, follow_links=True))
    except OSError as error:
        raise TensorsUnreadable(f"{path} cannot be read: {error.strerror}", fix=FIX) from None
    if found and (mode := found[1].decode()) in MODES:
        return Meta(mode=mode, mode_step=int(found[2]))
    return read_index(path).meta


def read_index(path: str) -> Index:
    """All of an index.

    Raises:
        TensorsUnreadable: it is damaged.
    """
    try:
        content = read_regular(path, INDEX_LIMIT_BYTES, follow_links=True)
        return _parse(path, json.loads(content))
    except OSError as error:
        raise TensorsUnreadable(f"{path} cannot be read: {error.strerror}", fix=FIX) from None
    except NOT_WHOLE as error:
        raise TensorsUnreadable(
            f"{path} is not an index of saved tensors: {type(error).__name__}: {error}", fix=FIX
        ) from None


def _parse(path: str, content: dict[str, Any]) -> Index:
    meta = content["meta"]
    mode = meta["mode"].strip()
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode!r}")
    entries: dict[str, Entry] = {}
    for payload in content.get("tensor_payload") or ():
        _add_location(entries, payload)
    for payload in content.get("shape_payload") or ():
        entry = entries.setdefault(str(payload["tensorname"]), Entry())
        entry.shape = tuple(int(size) for size in payload["shape"])
    return Index(
        path=path,
        meta=Meta(mode=mode, mode_step=int(meta["mode_step"])),
        events=meta.get("event_file_name", ""),
        entries=entries,
    )


def _add_location(entries: dict[str, Entry], payload: dict[str, Any]) -> None:
    record: str = payload["tensorname"]
    location = Location(int(payload["start_idx"]), int(payload["length"]))
    reduction = parse_reduction_name(record)
    name = reduction[1] if reduction else record
    entry = entries.get(name)
    if entry is None:
        entry = entries[name] = Entry()
    if reduction:
        entry.reductions[reduction[0]] = (record, location)
    else:
        entry.location = location


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
    """Remembers what it has seen; steps are in folders of a thousand."""

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
        """In the order of their steps. A writer's later step is never found before an earlier."""
        found = {f.path: f for folder in self._changed() for f in self._list(folder)}
        if found:
            # A listing may show a file that appeared while it was made, and not one that appeared
            # shortly before: each of those is in a second listing.
            newest = max(f.step for f in found.values())
            again = [f for folder in self._changed() for f in self._list(folder, exclude=found)]
            found |= {f.path: f for f in again if f.step <= newest}
        for path in found:  # only now: what ends this early, such as too little memory, loses none
            folder, _, name = path.rpartition("/")
            self._seen[folder].add(name)
        return sorted(found.values(), key=lambda f: (f.step, f.worker))

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

    def _list(self, folder: str, exclude: Container[str] = ()) -> Iterator[Found]:
        seen = self._seen.setdefault(folder, set())
        for name in _names(folder):
            if name in seen or f"{folder}/{name}" in exclude:
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
