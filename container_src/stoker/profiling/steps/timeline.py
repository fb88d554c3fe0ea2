"""The steps as Chrome trace events, in the files that SageMaker's readers expect.

framework/pevents/<YYYYMMDDHH>/<µs of the last event's end>_<node>_pythontimeline.json
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from json import dumps

from stoker.bus.step_records import EVALUATION
from stoker.profiling.steps import step_timer
from stoker.profiling.steps.step_timer import Step

MOST_BYTES = 128 * 1024 * 1024
"""Of all files of a process. The second half has steps only, without what they consist of."""

_SUFFIX = "pythontimeline.json"
_TRAIN, _EVALUATION = "Step:ModeKeys.TRAIN", "Step:ModeKeys.EVAL"
_PHASES = {
    step_timer.DATA_WAIT: ("DataLoaderIter", "DataLoaderIter::GetNext"),
    step_timer.TRANSFER: ("DataTransfer", "DataTransfer"),
    step_timer.FORWARD: ("Forward-node", "Forward-node"),
    step_timer.BACKWARD: ("Backward(post-forward)-node", "Backward(post-forward)-node"),
    step_timer.OPTIMIZER: ("Optimizer", "Optimizer"),
    step_timer.CHECKPOINT: ("Checkpoint", "Checkpoint"),
    step_timer.LOGGING: ("Logging", "Logging"),
}
LOADER_START = "DataLoaderIterInitialize"


class Timeline:
    """Collects events and closes a file when it is large or old enough. Never raises."""

    def __init__(
        self,
        folder: str,
        node: str,
        *,
        rotate_bytes: int,
        rotate_seconds: float,
        most_failures: int,
        tell: Callable[[str], None],
    ) -> None:
        self._folder = f"{folder}/framework"
        self._node = node
        self._pid = os.getpid()
        self._rotate_bytes = rotate_bytes
        self._rotate_seconds = rotate_seconds
        self._most_failures = most_failures
        self._tell = tell
        self._failures = 0
        self._written = 0
        self._base = self._end = 0
        self._clear()

    def add(self, step: Step, epoch: float) -> None:
        """Takes a step.

        Args:
            step: that has ended.
            epoch: Unix time of the clock's zero.
        """
        if self._failures > self._most_failures or self._written > MOST_BYTES:
            return
        start = int((epoch + step.start) * 1e6)
        end = start + int(step.total * 1e6)
        self._rotate_if_due(start, end)
        phase = _EVALUATION if step.flags & EVALUATION else _TRAIN
        args = f'{{"step_num":"{step.number}","pid":{self._pid}}}'
        self._event(phase, phase, start, end - start, args)
        # The second half of the room is for whole steps: a long training has them to its end.
        if self._written <= MOST_BYTES // 2:
            for part, begun, ended in step.spans:
                where, name = _PHASES[part]
                began = int((epoch + begun) * 1e6)
                self._event(where, name, began, int((ended - begun) * 1e6), args)
        self._end = max(self._end, end)

    def add_loader(
        self, kind: str, begun: float, ended: float, *, step: int, workers: int, is_pinned: bool
    ) -> None:
        """A DataLoader has started: Unix times."""
        start, end = int(begun * 1e6), int(ended * 1e6)
        args = dumps(
            {
                **{"num_workers": workers, "pin_memory": is_pinned},
                **{"step_num": str(step), "pid": self._pid},
            }
        )
        name = f"{kind}.__init__"
        self._rotate_if_due(start, end)
        self._event(LOADER_START, name, start, end - start, args)
        self._end = max(self._end, end)

    def close(self) -> None:
        """Closes the file."""
        if self._events:
            self._rotate()

    def _event(self, phase: str, name: str, start: int, duration: int, args: str) -> None:
        number = self._phases.get(phase)
        if number is None:
            # 0 is the process itself.
            number = self._phases[phase] = len(self._phases) + 1
            self._meta("process_name", number, {"name": phase})
            self._meta("process_sort_index", number, {"sort_index": number})
        if not self._base:
            self._base = start
            self._meta("process_name", 0, {"start_time_since_epoch_in_micros": start})
            self._meta("process_sort_index", 0, {"sort_index": 0})
        line = (
            f'{{"name":"{name}","pid":{number},"ph":"X","ts":{start - self._base},'
            f'"dur":{duration},"args":{args}}}'
        )
        self._events.append(line)
        self._size_bytes += len(line) + 2

    def _meta(self, name: str, pid: int, args: dict[str, object]) -> None:
        self._head.append(dumps({"name": name, "ph": "M", "pid": pid, "args": args}))

    def _rotate_if_due(self, start: int, end: int) -> None:
        if not self._events:
            return
        is_old = end - self._base > self._rotate_seconds * 1e6
        # Readers look for an event in the folder of its hour.
        is_other_hour = start // 3_600_000_000 != self._base // 3_600_000_000
        if is_old or is_other_hour or self._size_bytes >= self._rotate_bytes:
            self._rotate()

    def _rotate(self) -> None:
        """Writes one file: unfinished ones have a name that no reader and no uploader takes."""
        hour = time.strftime("%Y%m%d%H", time.gmtime(self._end / 1e6))
        target = f"{self._folder}/pevents/{hour}/{self._end}_{self._node}_{_SUFFIX}"
        temporary = f"{self._folder}/{self._node}_{self._pid}_{_SUFFIX}.tmp"
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                _write_all(file.write, [*sorted(self._head, key=_by_start), *self._events])
            os.replace(temporary, target)
        except OSError as error:
            self._failures += 1
            if self._failures > self._most_failures or self._failures == 1:
                self._tell(f"{error.strerror}: {target}")
        self._written += self._size_bytes
        self._clear()

    def _clear(self) -> None:
        self._head: list[str] = []
        self._events: list[str] = []
        self._phases: dict[str, int] = {}
        self._size_bytes = 0
        self._base = self._end = 0


def _write_all(write: Callable[[str], object], lines: Iterable[str]) -> None:
    write("[\n")
    write(",\n".join(lines))
    write("\n]\n")


def _by_start(line: str) -> bool:
    return "start_time_since_epoch_in_micros" not in line
