"""Work that is done one after the other, in a thread beside everything else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

_LAST_SECONDS = 1.0
"""For a thread that has nothing left to do: it ends at once."""


class Lane:
    """Its thread starts with the first work, and never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._undone = 0
        self._is_less_undone = threading.Condition()

    def put(self, work: Callable[[], None]) -> None:
        """Has it done after what was put in before; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        with self._is_less_undone:
            self._undone += 1
        self._queue.put(work)

    def close(self, *, limit_seconds: float) -> bool:
        """Waits until everything is done; False if the time is over before."""
        if self._thread is None:
            return True
        self._queue.put(None)
        # By the work, not by the thread: one that has nothing to do takes a moment to end, too.
        with self._is_less_undone:
            is_done = self._is_less_undone.wait_for(
                lambda: not self._undone, timeout=max(0.0, limit_seconds)
            )
        if is_done:
            self._thread.join(_LAST_SECONDS)
        return is_done

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            finally:
                with self._is_less_undone:
                    self._undone -= 1
                    self._is_less_undone.notify_all()
