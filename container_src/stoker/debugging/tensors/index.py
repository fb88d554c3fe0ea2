"""Index files: what one worker saved at one step, and where."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from stoker.contract.record import Record
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors.event_files import FIX, Location
from stoker.debugging.tensors.layout import NOT_WHOLE
from stoker.debugging.tensors.names import parse_reduction_name
from stoker.errors import TensorsUnreadable

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


class Index(Record):
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
        with open(path, "rb", buffering=0) as file:
            found = _META.match(file.read(_META_BYTES))
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
        with open(path, "rb") as file:
            return _parse(path, json.loads(file.read()))
    except OSError as error:
        raise TensorsUnreadable(f"{path} cannot be read: {error.strerror}", fix=FIX) from None
    except NOT_WHOLE as error:
        raise TensorsUnreadable(
            f"{path} is no index of saved tensors: {type(error).__name__}: {error}", fix=FIX
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
