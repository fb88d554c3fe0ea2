"""Work that is done one after the other, in a thread beside everything else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Lane:
    """Its thread starts with the first work, and never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, work: Callable[[], None]) -> None:
        """Has it done after what was put in before; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(work)

    def close(self, *, limit_seconds: float) -> bool:
        """Waits until everything is done; False if the time is over before."""
        if self._thread is None:
            return True
        self._queue.put(None)
        self._thread.join(max(0.0, limit_seconds))
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
