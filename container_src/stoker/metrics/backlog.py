"""Work handed over by the training thread, done in order by a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from stoker.contract.process_end import finish_in_child

Item = TypeVar("Item")
Work = Callable[[list[Item], bool], bool]
"""Does some items; the flag says that a caller waits for them. Returns whether it has to be called
again soon although nothing new came."""

_GATHER_SECONDS = 0.25
"""Items are done in batches: waking for each one would take the GIL from the training loop."""
_SLICE_SECONDS = 0.5
# Beyond one of these bounds `add` waits for the thread, and then drops what is new.
_MOST_ITEMS = 200_000
_MOST_BYTES = 64 << 20
_LOG = logging.getLogger("stoker.metrics")


class _Request(NamedTuple):
    """A caller waits until all is done."""

    done: threading.Lock
    """Held until then."""
    ends: bool
    """The thread is to end after it."""


class Backlog(Generic[Item]):
    """A bounded queue and its thread, which is there from the first item on.

    Nothing here waits for a lock that another place holds: a signal handler may interrupt any of
    it and call `flush`. `SimpleQueue.put` and `deque.append` are safe in that, `Event.set` is not.
    """

    def __init__(self, work: Work[Item], *, name: str, patience_seconds: float = 10.0) -> None:
        """
        Args:
            work: what the thread does.
            name: of the thread, and of the whole in a warning.
            patience_seconds: how long `add` waits when the thread does not keep up, before it
                drops what is new.
        """
        self._work = work
        self._name = name
        self._patience_seconds = patience_seconds
        self.forget()

    def forget(self) -> None:
        """Drops everything; also in a forked child, which has the memory but not the thread."""
        self._items: deque[Item] = deque()
        self._bytes_in = self._bytes_out = 0
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._working = threading.RLock()
        self._thread: threading.Thread | None = None
        self._is_idle = True
        self._is_stuck = False
        self._owes = False

    def add(self, item: Item, size_bytes: int = 0) -> None:
        """Hands over one item; `size_bytes` where it is large."""
        self._items.append(item)
        # Only the first item after a pause wakes the thread: the training pays for an append
        # otherwise.
        if self._is_idle or size_bytes or len(self._items) > _MOST_ITEMS:
            self._attend(size_bytes)

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all that was added is done; False if that takes too long."""
        return self._ask(timeout_seconds, ends=False)

    def close(self, timeout_seconds: float) -> None:
        """Flushes and ends the thread; the next item starts another."""
        self._ask(timeout_seconds, ends=True)

    def _ask(self, timeout_seconds: float, *, ends: bool) -> bool:
        thread, request = self._thread, _Request(threading.Lock(), ends)
        request.done.acquire()
        if thread is not None:
            self._requests.put(request)
        deadline = time.monotonic() + timeout_seconds
        while thread is not None and thread.is_alive():
            left_seconds = deadline - time.monotonic()
            # In slices: the thread may have ended at another's request, without seeing this one.
            if request.done.acquire(timeout=max(0.0, min(left_seconds, _SLICE_SECONDS))):
                return True
            if left_seconds <= 0:
                return False
        self._do_all(urgent=True)
        return True

    def _attend(self, size_bytes: int) -> None:
        self._bytes_in += size_bytes
        if self._thread is None:
            self._start()
        elif self._is_idle:
            self._is_idle = False
            self._requests.put(None)
        if len(self._items) > _MOST_ITEMS or self._bytes_in - self._bytes_out > _MOST_BYTES:
            self._make_room()

    def _start(self) -> None:
        if not self._starting.acquire(blocking=False):
            return  # another thread, or what a signal interrupted, is about to
        try:
            if self._thread is not None:
                return
            finish_in_child()
            self._is_idle = False
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        except RuntimeError:
            self._is_idle = True  # no threads at the interpreter's end: `flush` does the work
        finally:
            self._starting.release()

    def _make_room(self) -> None:
        if not self._is_stuck and self.flush(self._patience_seconds):
            return
        with suppress(IndexError):  # the thread has just come to it
            self._items.pop()
        if not self._is_stuck:
            self._is_stuck = True
            _LOG.warning("%s does not keep up: some of what is logged now is lost", self._name)

    def _run(self) -> None:
        while True:
            has_work = bool(self._items) or self._owes
            self._is_idle = not has_work
            if self._items:  # it came between these two lines, and its sender saw a busy thread
                self._is_idle, has_work = False, True
            try:
                request = self._requests.get(timeout=_GATHER_SECONDS if has_work else None)
            except Empty:
                self._do_all(urgent=False)
                continue
            self._is_idle = False
            if request is None:
                continue
            if request.ends:
                self._thread, self._is_idle = None, True  # what comes now starts another one
            self._do_all(urgent=True)
            request.done.release()
            if request.ends:
                return

    def _do_all(self, *, urgent: bool) -> None:
        # Two threads for a moment after `close`; re-entered by a signal that interrupts a flush.
        with self._working:
            size_bytes = self._bytes_in
            items = [self._items.popleft() for _ in range(len(self._items))]
            try:
                self._owes = self._work(items, urgent)
            except Exception:
                # An internal error, or one of an object that was logged, must not end the thread.
                _LOG.exception("%s: up to %d entries are lost", self._name, len(items))
            self._bytes_out, self._is_stuck = size_bytes, False
