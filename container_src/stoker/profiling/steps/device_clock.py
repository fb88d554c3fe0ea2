"""Seconds of work on the accelerator: the CPU only puts it in a queue and does not wait."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

from stoker.profiling.steps.step_timer import BACKWARD, FORWARD, OPTIMIZER

_NAN = float("nan")
_NONE = (_NAN, _NAN, _NAN)
_PARTS = (FORWARD, BACKWARD, OPTIMIZER)
_MOST_PAIRS = 64
"""Of a step: a thousand micro-batches need no more than a sample."""


class DeviceClock:
    """Marks the queue with events and reads them when they have passed. It never waits."""

    def __init__(self) -> None:
        self._events: deque[list[tuple[int, Any, Any]]] = deque()
        self._now: list[tuple[int, Any, Any]] = []
        self._open: dict[int, Any] = {}
        self._kind: Any = None

    def begin(self, part: int) -> None:
        """Work of a part is put in the queue from now on."""
        if self._is_on() and part not in self._open and len(self._now) < _MOST_PAIRS:
            self._open[part] = self._mark()

    def end(self, part: int) -> None:
        """No more of it."""
        begun = self._open.pop(part, None)
        if begun is not None:
            self._now.append((part, begun, self._mark()))

    def finish_step(self) -> tuple[float, ...]:
        """Forward, backward and optimizer of the newest step whose work is done.

        That is a step before this one; NaN if none is done, or without an accelerator.
        """
        if self._kind is None:
            return _NONE
        self._events.append(self._now)
        self._now, self._open = [], {}
        done = None
        while self._events and all(end.query() for _, _, end in self._events[0]):
            done = self._events.popleft()
        if done is None:
            return _NONE
        sums = dict.fromkeys(_PARTS, 0.0)
        for part, begun, end in done:
            sums[part] += begun.elapsed_time(end) / 1000
        return tuple(sums[part] for part in _PARTS)

    def _is_on(self) -> bool:
        # Not before the script uses it: asking would make a context in each process.
        if self._kind is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            self._kind = torch.cuda.Event
        return self._kind is not None

    def _mark(self) -> Any:  # noqa: ANN401 - of the device
        event = self._kind(enable_timing=True)
        event.record()
        return event
