"""Which steps can be judged: those that every worker has written, or never will."""

from __future__ import annotations

from bisect import insort

from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.index import Meta

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
