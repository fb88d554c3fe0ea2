"""Which step it is and which part of it: a stopwatch with one pile of seconds per part.

No torch here. Times are those of `time.perf_counter`.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from stoker.bus.step_records import ACCUMULATED, EVALUATION, FIRST_OF_EPOCH, SPLIT

OTHER = 0
DATA_WAIT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, LOGGING = range(1, len(SPLIT) + 1)
PARTS = ("other", *SPLIT)

MOST_SPANS = 512
"""Kept of a step: a thousand micro-batches would fill the timeline."""


class Step(NamedTuple):
    """A step that has ended."""

    start: float
    total: float
    number: int
    """Within its phase, from 0."""
    flags: int
    ready_batches: int
    """-1: unknown."""
    seconds: tuple[float, ...]
    """In the order of PARTS."""
    spans: list[tuple[int, float, float]]
    """Part, start and end of what happened, for the timeline."""


class StepTimer:
    """Gets what happens as it begins and ends; hands each step over when the next one begins.

    A second belongs to the innermost part that has begun. Only one thread is followed: that which
    runs the model and its optimizer. Where a step ends is in docs/architecture/07-profiler.md.
    """

    def __init__(
        self,
        take: Callable[[Step], None],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._take = take
        self._clock = clock
        self._numbers = [0, 0]
        self._first_optimizer: weakref.ref[object] | None = None
        self._thread = 0
        self._is_thread_sure = False
        self._stack = [OTHER]
        self._mark = self._start = 0.0
        self._is_begun = False
        self._ready = -1
        self._fetches = 0
        self._is_first_of_epoch = False
        self._has_forward = self._has_evaluation = self._has_backward = False
        self._is_trained = self._is_stepped = self._is_idle = False
        self._forget()

    @property
    def is_training(self) -> bool:
        """Whether the step that runs now has done anything of a training step."""
        return self._is_trained or self._has_backward

    @property
    def next_train_step(self) -> int:
        """The number of the training step that runs now or begins next."""
        return self._numbers[0]

    def is_followed(self) -> bool:
        """Whether the calling thread is the one that trains."""
        return threading.get_ident() == self._thread

    def begin_epoch(self) -> int:
        """A loader starts. Returns what `end` takes; -1 if this thread is not followed."""
        return self._begin_loading(is_epoch=True)

    def begin_fetch(self, ready_batches: int = -1) -> int:
        """A batch is asked for; likewise."""
        depth = self._begin_loading(is_epoch=False)
        if depth >= 0 and self._fetches == 0:
            self._ready = ready_batches
        return depth

    def end_fetch(self, depth: int, *, is_batch: bool) -> None:
        """The batch has come, or there are no more."""
        self.end(depth)
        self._fetches += is_batch and depth >= 0

    def begin_forward(self, *, is_evaluation: bool, is_apart: bool = False) -> int:
        """An outermost module is called.

        Args:
            is_evaluation: no gradients will come of it.
            is_apart: the module is not in training mode either, as in an evaluation. Other
                calls without gradients, such as a generator's, may be part of a training step.
        """
        if not self._may_follow(is_sure=not is_evaluation) or self._is_inside(BACKWARD, DATA_WAIT):
            return -1  # recomputed for the gradients, or part of loading
        self._end_failed_forward()
        is_next = is_evaluation and self._is_stepped if self._fetches else self._is_complete()
        if is_next or (is_apart and self._is_trained):
            self._close(self._clock())
        if is_evaluation:
            self._has_evaluation = True
        else:
            self._has_forward = True
        self._is_idle = False
        return self.begin(FORWARD)

    def begin_backward(self) -> int:
        """Gradients are computed."""
        if not self._may_follow(is_sure=True):
            return -1
        is_bare = not self._fetches and not self._is_inside(OPTIMIZER, BACKWARD)
        if is_bare and self._is_complete():
            self._close(self._clock())  # no module is called in this loop
        self._has_backward, self._is_idle = True, False
        return self.begin(BACKWARD)

    def begin_optimizer(self, optimizer: object) -> int:
        """An optimizer makes a step."""
        if not self._may_follow(is_sure=True):
            return -1
        first = self._first_optimizer() if self._first_optimizer is not None else None
        if first is None:
            first = optimizer
            self._first_optimizer = weakref.ref(optimizer)
        if optimizer is first and self._is_idle and not self._is_inside(OPTIMIZER):
            self._close(self._clock())  # what a loop does is in a closure, or without a module
        return self.begin(OPTIMIZER)

    def end_optimizer(self, depth: int, optimizer: object) -> None:
        """It has made it."""
        self.end(depth)
        if depth < 0:
            return
        self._is_trained = True
        is_first = self._first_optimizer is not None and self._first_optimizer() is optimizer
        if not is_first and id(optimizer) in self._others:
            # The first one is used no more.
            is_first, self._first_optimizer = True, weakref.ref(optimizer)
        self._others.add(id(optimizer))
        # Without a loader, one of several optimizers counts: a step has one step of each.
        self._is_stepped = self._is_stepped or is_first or self._fetches > 0
        self._is_idle = is_first

    def begin(self, part: int) -> int:
        """Anything else begins. The caller knows that this thread is followed."""
        now = self._clock()
        if not self._is_begun:
            self._is_begun, self._start, self._mark = True, now, now
        stack = self._stack
        self._seconds[stack[-1]] += now - self._mark
        self._mark = now
        stack.append(part)
        self._begun.append(now)
        return len(stack) - 1

    def end(self, depth: int) -> None:
        """What `begin` has returned: whatever began inside it has ended, too."""
        stack = self._stack
        if not 0 < depth < len(stack):
            return
        now = self._clock()
        self._seconds[stack[-1]] += now - self._mark
        self._mark = now
        if len(self._spans) < MOST_SPANS:
            self._spans.append((stack[depth], self._begun[depth - 1], now))
        del stack[depth:], self._begun[depth - 1 :]

    def begun_at(self, depth: int) -> float:
        """When that has begun which `begin` gave this number."""
        return self._begun[depth - 1] if 0 < depth < len(self._stack) else self._clock()

    def skip(self) -> None:
        """What has been since is not measured."""
        self._is_begun = False
        self._forget()

    def close(self) -> dict[str, float]:
        """The process ends: so does the step, if it got as far as that.

        Returns:
            Seconds since the last step: `total`, and those of each part.
        """
        now = self._clock()
        if self._is_complete():
            self._close(now)
        if not self._is_begun:
            return {}
        self._seconds[self._stack[-1]] += now - self._mark
        parts = zip(PARTS, self._seconds, strict=True)
        return {"total": now - self._start, **{name: spent for name, spent in parts if spent}}

    def start_again(self) -> None:
        """In a process that was forked: nothing has happened here yet."""
        self._numbers = [0, 0]
        self._thread, self._is_thread_sure = 0, False
        self._is_begun = False
        self._first_optimizer = None
        self._forget()

    def _begin_loading(self, *, is_epoch: bool) -> int:
        if not self._may_follow(is_sure=False):
            return -1
        self._end_failed_forward()
        is_complete = self._is_complete_at_fetch() or (is_epoch and self._is_trained)
        if len(self._stack) == 1 and is_complete:
            self._close(self._clock())
        self._is_idle = False
        if is_epoch:
            self._is_first_of_epoch = True
            if not (self._has_forward or self._has_evaluation or self._has_backward):
                self._fetches = 0  # the loop before it was left with a batch unused
        return self.begin(DATA_WAIT)

    def _may_follow(self, *, is_sure: bool) -> bool:
        """Follows the thread that trains; before one does, that which seems about to."""
        thread = threading.get_ident()
        if thread == self._thread:
            self._is_thread_sure = self._is_thread_sure or is_sure
            return True
        if self._is_thread_sure or not (is_sure or self._thread == 0):
            return False
        self._thread, self._is_thread_sure = thread, is_sure
        self._is_begun = False
        self._forget()
        return True

    def _end_failed_forward(self) -> None:
        # An error that the script has caught: nothing outermost begins inside a forward pass.
        if FORWARD in self._stack:
            self.end(self._stack.index(FORWARD))
            self._has_forward = self._has_forward and self._has_backward

    def _is_inside(self, *parts: int) -> bool:
        return len(self._stack) > 1 and any(part in self._stack for part in parts)

    def _is_complete(self) -> bool:
        if self._is_trained:
            return self._is_stepped
        return self._has_evaluation and not self._has_forward and not self._has_backward

    def _is_complete_at_fetch(self) -> bool:
        # A model in training mode that is only called: no gradients, no optimizer.
        is_called = self._has_forward and not self._has_backward and not self._is_trained
        return self._is_complete() or is_called

    def _close(self, now: float) -> None:
        self._seconds[self._stack[-1]] += now - self._mark
        is_evaluation = not self._is_trained and not self._has_backward
        flags = EVALUATION * is_evaluation + FIRST_OF_EPOCH * self._is_first_of_epoch
        flags += ACCUMULATED * (self._fetches > 1)
        step = Step(
            self._start,
            now - self._start,
            self._numbers[is_evaluation],
            flags,
            self._ready,
            tuple(self._seconds),
            self._spans,
        )
        self._numbers[is_evaluation] += 1
        self._forget()
        self._start = self._mark = now
        self._take(step)

    def _forget(self) -> None:
        self._seconds = [0.0] * len(PARTS)
        self._spans: list[tuple[int, float, float]] = []
        self._others: set[int] = set()
        self._begun: list[float] = []
        self._stack = [OTHER]
        self._fetches = 0
        self._ready = -1
        self._is_first_of_epoch = False
        self._has_forward = self._has_evaluation = self._has_backward = False
        self._is_trained = self._is_stepped = self._is_idle = False
