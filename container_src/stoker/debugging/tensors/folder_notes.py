"""What the writers of a folder record about it: collections, descriptions, number of workers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, Generic, TypeVar

from stoker.contract.files import read_regular
from stoker.debugging.description import Description, changed_values
from stoker.debugging.tensors.collection import Collection, parse_collections
from stoker.debugging.tensors.layout import (
    COLLECTIONS,
    DESCRIPTIONS,
    INDEX_LIMIT_BYTES,
    NOT_WHOLE,
    descriptions_file,
    parse_collections_name,
    parse_descriptions_name,
)
from stoker.debugging.tensors.step_file import write_whole

Note = TypeVar("Note")


class FolderNotes:
    """Read again when a file was replaced."""

    def __init__(self, folder: str) -> None:
        self._collections = _Notes(
            f"{folder}/{COLLECTIONS}", parse_collections_name, parse_collections
        )
        self._descriptions = _Notes(
            f"{folder}/{DESCRIPTIONS}", parse_descriptions_name, parse_descriptions
        )
        self.collections: dict[str, Collection] = {}
        self.descriptions: dict[str, Description] = {}
        self.num_workers = 0
        """That save; 0 if it is not known yet."""
        self.workers: tuple[str, ...] = ()

    def refresh(self) -> bool:
        """Returns whether anything is new."""
        has_collections, has_descriptions = (
            self._collections.refresh(),
            self._descriptions.refresh(),
        )
        if has_collections:
            self._merge_collections()
        if has_descriptions:
            notes = self._descriptions.by_worker
            # The first worker's word counts: so it is merged last.
            ordered = [d for worker in sorted(notes, reverse=True) for d in notes[worker]]
            self.descriptions = {description.name: description for description in ordered}
        return has_collections or has_descriptions

    def _merge_collections(self) -> None:
        notes = self._collections.by_worker
        self.workers = tuple(sorted(notes))
        self.num_workers = max((count for _, count in notes.values()), default=0)
        self.collections = {}
        for worker in self.workers:
            for name, collection in notes[worker][0].items():
                first = self.collections.get(name, collection)
                names = dict.fromkeys((*first.tensor_names, *collection.tensor_names))
                self.collections[name] = replace(first, tensor_names=tuple(names))


class _Notes(Generic[Note]):
    """The files of one kind, one for each worker."""

    def __init__(
        self, folder: str, worker_of: Callable[[str], str | None], parse: Callable[[str], Note]
    ) -> None:
        self._folder, self._worker_of, self._parse = folder, worker_of, parse
        self._versions: dict[str, tuple[int, int, int]] = {}
        self.by_worker: dict[str, Note] = {}

    def refresh(self) -> bool:
        """Returns whether a file is new or was replaced."""
        has_new = False
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    worker = self._worker_of(entry.name)
                    if worker is not None and self._read(worker, entry):
                        has_new = True
        except OSError:
            return has_new  # not there yet
        return has_new

    def _read(self, worker: str, entry: os.DirEntry[str]) -> bool:
        status = entry.stat()
        # The number of the file, too: a file that replaces another may be as large and as new.
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._versions.get(entry.path) == version:
            return False
        content = read_regular(entry.path, INDEX_LIMIT_BYTES)
        self._versions[entry.path] = version
        try:
            self.by_worker[worker] = self._parse(content.decode())
        except NOT_WHOLE:
            return False  # half copied: it will be replaced by the whole; the names still tell
        return True


_VERSION = 1


def write_descriptions(folder: str, worker: str, descriptions: Iterable[Description]) -> None:
    """Writes all descriptions of one worker, in place of those it wrote before.

    Raises:
        OSError: it cannot be written.
    """
    tensors = [changed_values(description) for description in descriptions]
    content = json.dumps({"version": _VERSION, "tensors": tensors})
    write_whole(f"{folder}/{descriptions_file(worker)}", content)


def parse_descriptions(content: str) -> list[Description]:
    """The descriptions of a file; what a newer version adds is passed over.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is not such a file.
    """
    return [_from_json(tensor) for tensor in json.loads(content)["tensors"]]


def read_descriptions(folder: str, worker: str) -> list[Description]:
    """Those that a worker has written; none where it did not, or not as a whole."""
    try:
        file = f"{folder}/{descriptions_file(worker)}"
        return parse_descriptions(read_regular(file, INDEX_LIMIT_BYTES).decode())
    except (OSError, *NOT_WHOLE):
        return []


def _from_json(tensor: Mapping[str, Any]) -> Description:
    known = {each.name: each for each in fields(Description) if each.name in tensor}
    for name, each in known.items():
        if not isinstance(tensor[name], str if each.default is MISSING else type(each.default)):
            raise TypeError(f"{name} of a tensor is {tensor[name]!r:.80}")
    return Description(**{name: tensor[name] for name in known})
