"""The file of step records: collected in memory, appended about once a second."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from stoker.bus.step_records import LEVEL_RECORDS, MOST_MERGED, RECORD_BYTES, pack
from stoker.contract.files import open_regular
from stoker.profiling.steps.step_timer import Step

FLUSH_SECONDS = 1.0
_MOST_WAITING = 4096
_NAN = float("nan")
_NO_DEVICE = (_NAN, _NAN, _NAN)


class StepFile:
    """Never raises: after an error nothing more is written, and `trouble` says why."""

    def __init__(self, path: str, *, tell: Callable[[str], None]) -> None:
        """Args:
        path: of the file; a file of that name is continued.
        tell: called once if it cannot be written.
        """
        self.path = path
        self.trouble = ""
        self._tell = tell
        self._descriptor = -1
        self._waiting: list[bytes] = []
        self._next_flush = 0.0
        self._records = 0
        self._level = 1
        self._merged: list[float] = []
        """The record that further steps are added to, once there is more than one in each."""

    def add(self, step: Step, wall_start: float, device: tuple[float, ...] = _NO_DEVICE) -> None:
        """Takes a step.

        Args:
            step: that has ended.
            wall_start: when it began: Unix time.
            device: seconds of forward, backward and optimizer on the accelerator.
        """
        total = step.total
        record = [
            *(wall_start, step.number, 1, step.flags, max(-1, min(step.ready_batches, 127))),
            *(total, *step.seconds[1:], total, *device),
        ]
        if self._level == 1:
            self._append(record)
        elif not self._merged:
            self._merged = record
        # Other flags: training and evaluation are not added up.
        elif self._merged[3] != record[3]:
            self._append(self._merged)
            self._merged = record
        else:
            _merge(self._merged, record)
            if self._merged[2] >= self._level:
                self._append(self._merged)
                self._merged = []
        end = step.start + total
        if end >= self._next_flush or len(self._waiting) >= _MOST_WAITING:
            self._next_flush = end + FLUSH_SECONDS
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting."""
        content = b"".join(self._waiting)
        self._waiting.clear()
        if not content or self.trouble:
            return
        try:
            if self._descriptor < 0:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = open_regular(self.path, flags)
            done = os.write(self._descriptor, content)
            if done < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.trouble = f"{error.strerror}: {self.path}"
            self._cut_half_record()
            self._tell(self.trouble)

    def close(self) -> None:
        """Writes the rest."""
        if self._merged:
            self._append(self._merged)
            self._merged = []
        self.flush()
        self.forget()

    def forget(self) -> None:
        """Closes the file as it is; in a forked process it is the parent's."""
        self._waiting.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, record: list[float]) -> None:
        self._waiting.append(pack(tuple(record)))
        self._records += 1
        # From here on a record has twice as many steps: a training of weeks has a small file.
        if self._records % LEVEL_RECORDS == 0:
            self._level = min(self._level * 2, MOST_MERGED)

    def _cut_half_record(self) -> None:
        if self._descriptor < 0:
            return
        try:
            size_bytes = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, size_bytes // RECORD_BYTES * RECORD_BYTES)
        except OSError:
            return


def _merge(into: list[float], record: list[float]) -> None:
    """Adds up seconds; the longest step is kept."""
    into[2] += 1
    for place in (*range(5, 13), *range(14, 17)):
        into[place] += record[place]
    into[13] = max(into[13], record[13])
