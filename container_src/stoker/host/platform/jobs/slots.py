"""How many jobs run side by side; the others wait in the order they came."""

from __future__ import annotations

import threading
from collections import deque


class Slots:
    """A fixed number of places, given first come, first served."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._taken: set[str] = set()
        self._waiting: deque[tuple[str, threading.Event]] = deque()

    def adopt(self, job: str) -> None:
        """A job that ran before the server was restarted keeps its place, whatever the limit."""
        with self._lock:
            self._taken.add(job)

    def ask(self, job: str, wake: threading.Event) -> bool:
        """True if the job has a place now; else it is in the queue and `wake` is set in time."""
        with self._lock:
            if job in self._taken:
                return True
            if all(job != name for name, _ in self._waiting):
                self._waiting.append((job, wake))
            self._give()
            return job in self._taken

    def leave(self, job: str) -> None:
        """Give up the place, or the place in the queue."""
        with self._lock:
            self._taken.discard(job)
            self._waiting = deque(each for each in self._waiting if each[0] != job)
            self._give()

    def _give(self) -> None:
        while self._waiting and len(self._taken) < self.count:
            name, wake = self._waiting.popleft()
            self._taken.add(name)
            wake.set()
