"""What the life of one job listens to: a stop, its deadlines, the end of the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stoker.host.platform.jobs.deadlines import Deadline, next_deadline
from stoker.host.platform.jobs.state import Cause, JobRecord
from stoker.host.platform.jobs.store import Store
from stoker.host.platform.request import TrainingRequest

_LONGEST_WAIT_SECONDS = 3600.0  # so that a clock that is set does not leave a job asleep for ever


class ServerClosing(Exception):
    """The server ends: leave everything as it is; the next one goes on from the store."""


class JobControl:
    """One job's record and the events around it; shared by its life and the API's threads."""

    def __init__(self, name: str, store: Store, closing: threading.Event) -> None:
        self.name = name
        self._store = store
        self._closing = closing
        self.wake = threading.Event()
        """Set whenever there may be something new to look at."""
        self.cancelled = threading.Event()
        """Set when what is being downloaded is no longer wanted."""

    def read(self) -> JobRecord:
        """What is known about the job."""
        return self._store.read(self.name)

    def change(self, function: Callable[[JobRecord, float], JobRecord]) -> JobRecord:
        """Record a change, made by a pure function of the record and the time."""
        return self._store.change(self.name, lambda record: function(record, time.time()))

    def call_off(self) -> None:
        """A stop was recorded, or the server ends: look at it now."""
        self.cancelled.set()
        self.wake.set()

    @contextmanager
    def cancelling_at(self, deadline: Deadline | None) -> Iterator[None]:
        """Set `cancelled` when a deadline passes meanwhile."""
        if deadline is None:
            yield
            return
        left = max(0.0, deadline.at - time.time())
        timer = threading.Timer(left, self.cancelled.set)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def require_server(self) -> None:
        """Raises ServerClosing when the server ends."""
        if self._closing.is_set():
            raise ServerClosing

    def wait(self, until: float | None) -> None:
        """Wait for something new, but not beyond a moment.

        Raises:
            ServerClosing: the server ends.
        """
        left = _LONGEST_WAIT_SECONDS if until is None else until - time.time()
        if left > 0:
            self.wake.wait(min(left, _LONGEST_WAIT_SECONDS))
        self.wake.clear()
        self.require_server()

    def told_to_end(self, record: JobRecord, request: TrainingRequest) -> Cause:
        """Why the job must end now; empty if it may go on."""
        if record.stop_asked:
            return "asked"
        deadline = next_deadline(record, request)
        return deadline.cause if deadline and deadline.at <= time.time() else ""
