"""Reading a folder of saved tensors, ours or smdebug's, while it grows."""

from __future__ import annotations

import os
from bisect import insort
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from stoker.contract.debugger import END_MARKER
from stoker.debugging.description import Description
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.collection import Chooser, Collection
from stoker.debugging.tensors.event_files import EventFile
from stoker.debugging.tensors.folder_notes import FolderNotes
from stoker.debugging.tensors.index import Index, IndexFolder, Meta, read_index
from stoker.debugging.tensors.layout import parse_index_name
from stoker.debugging.tensors.step import Step
from stoker.errors import TensorMissing, TensorsUnreadable

_OPEN_STEPS = 8
"""Kept at hand: rules look at the same few steps again and again."""


class SavedTensors:
    """What was saved of a run, up to the last `refresh()`.

    Example:
        >>> saved = SavedTensors("/opt/ml/output/tensors")
        >>> for step in saved.steps("TRAIN"):
        ...     loss = saved.at(step).find("CrossEntropyLoss_output_0")
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """A folder that is not there yet is empty."""
        self.folder = os.fspath(folder).rstrip("/")
        self.has_ended = False
        """Whether nothing will come any more."""
        self.collections: Mapping[str, Collection] = {}
        """By name, of all workers together."""
        self.descriptions: Mapping[str, Description] = {}
        """By name, as the hook wrote them; empty for files of smdebug's own."""
        self.chooser = Chooser()
        self._index = IndexFolder(self.folder)
        self._completeness = Completeness()
        self._files: dict[int, tuple[str, ...]] = {}
        """Step → the index files of its workers. A run may have a million steps: no more of each
        than this."""
        self._workers: set[str] = set()
        self._steps: OrderedDict[int, Step] = OrderedDict()
        self._notes = FolderNotes(self.folder)
        self._names: set[str] = set()
        self._unnamed: dict[str, None] = {}
        """Index files whose names are not among those yet."""
        self.refresh()

    def refresh(self) -> list[int]:
        """Looks for new steps; costs little when there are none.

        Returns:
            The steps that became complete, rising. One that comes late may be lower than steps
            that earlier calls returned.
        """
        # Asked first: what is listed after the end is all there is.
        has_ended = os.path.exists(f"{self.folder}/{END_MARKER}")
        for step, worker, path, meta in self._index.find_new():
            self._files[step] = (*self._files.get(step, ()), path)
            self._completeness.add(step, worker, meta)
            self._workers.add(worker)
            self._unnamed[path] = None
            self._steps.pop(step, None)  # another worker has more of it
        if self._notes.refresh():
            self.collections, self.descriptions = self._notes.collections, self._notes.descriptions
            self.chooser.learn(self.descriptions, self.collections)
        num_workers = self._notes.num_workers or len(self.workers)
        self.has_ended = has_ended
        return self._completeness.settle(num_workers=num_workers, has_ended=has_ended)

    def steps(self, mode: Mode | None = None) -> Sequence[int]:
        """The global numbers of the complete steps, rising; of one mode or of all."""
        return self._completeness.steps(mode)

    def at(self, step: int) -> Step:
        """The tensors of a step.

        Raises:
            TensorMissing: nothing was saved there, or not by all workers yet.
            TensorsUnreadable: its index is damaged.
        """
        found = self._steps.get(step)
        if found is None:
            found = self._steps[step] = self._open(step)
            if len(self._steps) > _OPEN_STEPS:
                self._steps.popitem(last=False)
        else:
            self._steps.move_to_end(step)
        return found

    def open_events(self, name: str) -> EventFile:
        """The file with the tensors of a step, as its index calls it; read when looked at."""
        return EventFile(f"{self.folder}/{name}")

    @property
    def workers(self) -> tuple[str, ...]:
        """Those that have saved anything."""
        return tuple(sorted(self._workers.union(self._notes.workers), key=_natural))

    @property
    def damaged(self) -> Mapping[str, TensorsUnreadable]:
        """Index files that cannot be read, and so steps that are not seen → what is wrong."""
        return self._index.damaged

    def names(self) -> list[str]:
        """Of all tensors that were ever saved, sorted. Reads every index that was not read yet."""
        for path in list(self._unnamed):
            with suppress(TensorsUnreadable):
                self._read(path)
            self._unnamed.pop(path, None)
        return sorted(self._names)

    def _open(self, step: int) -> Step:
        meta = self._completeness.meta(step)
        if meta is None:
            raise TensorMissing(
                f"no tensors were saved at step {step} in {self.folder}",
                fix=f"steps that were saved: {shorten_steps(self.steps())}",
            )
        files = {_worker_of(path): path for path in self._files[step]}
        indexes = {worker: self._read(files[worker]) for worker in sorted(files, key=_natural)}
        return Step(self, step, meta, indexes)

    def _read(self, path: str) -> Index:
        index = read_index(path)
        self._names.update(index.entries)
        self._unnamed.pop(path, None)
        return index


def _worker_of(path: str) -> str:
    parsed = parse_index_name(os.path.basename(path))
    return parsed[1] if parsed else ""


def _natural(worker: str) -> tuple[str, int]:
    """So that worker_10 comes after worker_9."""
    digits = len(worker) - len(worker.rstrip("0123456789"))
    return worker[: len(worker) - digits], int(worker[-digits:]) if digits else -1


def shorten_steps(steps: Sequence[int]) -> str:
    """Their numbers for a message, those in the middle left out where they are many."""
    if len(steps) > 12:
        return f"{', '.join(map(str, steps[:6]))} … {', '.join(map(str, steps[-3:]))}"
    return ", ".join(map(str, steps)) or "none"


_MOST_WAITING = 1000
"""Steps; when more than that wait for a worker, the older half waits no longer (as in smdebug)."""


class Completeness:
    """smdebug's meaning: a step is complete when all workers wrote it, when a later step is
    complete, or when the training has ended."""

    def __init__(self) -> None:
        self._complete: dict[Mode | None, list[int]] = {None: []}
        self._metas: dict[int, Meta] = {}
        """Of all steps, complete or not; a step belongs to the mode it was first seen in."""
        self._writers: dict[int, set[str]] = {}
        """Of the steps that are not complete."""
        self._newest_complete = -1

    def add(self, step: int, worker: str, meta: Meta) -> None:
        """One worker has written a step."""
        if step not in self._metas:
            self._metas[step] = meta
            self._writers[step] = set()
        if step in self._writers:
            self._writers[step].add(worker)

    def settle(self, *, num_workers: int, has_ended: bool) -> list[int]:
        """Returns the steps that have become complete, rising."""
        whole = [s for s, workers in self._writers.items() if len(workers) >= num_workers]
        self._newest_complete = max([self._newest_complete, *whole])
        waiting = sorted(s for s in self._writers if s > self._newest_complete)
        if has_ended and waiting:
            self._newest_complete = waiting[-1]
        elif len(waiting) > _MOST_WAITING:
            self._newest_complete = waiting[_MOST_WAITING // 2]
        settled = sorted(s for s in self._writers if s <= self._newest_complete)
        for step in settled:
            del self._writers[step]
            for mode in (None, self._metas[step].mode):
                insort(self._complete.setdefault(mode, []), step)
        return settled

    def steps(self, mode: Mode | None = None) -> list[int]:
        """The complete ones, rising; not to be changed."""
        return self._complete.get(mode, [])

    def meta(self, step: int) -> Meta | None:
        """Of a complete step; None for another."""
        return None if step in self._writers else self._metas.get(step)
