"""What interrupts the worker of one job: a stop, its deadlines, the end of the server."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.platform.jobs.state import Attempt, Cause, JobRecord
from stoker.platform.jobs.store import Store
from stoker.platform.model.request import TrainingRequest

_LONGEST_WAIT_SECONDS = 3600.0  # so that a clock that is set does not leave a job asleep for ever


class ServerClosing(Exception):
    """The server ends: leave everything as it is; the next one continues from the store."""


class JobControl:
    """One job's record and the events around it; shared by its worker and the API's threads."""

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
        # Before the caller looks: an event that comes from now on is seen at the next wait.
        self.wake.clear()
        self.require_server()

    def told_to_end(self, record: JobRecord, request: TrainingRequest) -> Cause:
        """Why the job must end now; empty if it may continue."""
        if record.stop_asked:
            return "asked"
        deadline = next_deadline(record, request)
        return deadline.cause if deadline and deadline.at <= time.time() else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deadline:
    """A moment, and why the job must end then."""

    at: float
    cause: Cause


def next_deadline(record: JobRecord, request: TrainingRequest) -> Deadline | None:
    """The earlier of the two that apply now."""
    found = [d for d in (_runtime(record, request), _wait(record, request)) if d is not None]
    return min(found, key=lambda d: d.at, default=None)


def trained_seconds(attempts: tuple[Attempt, ...], now: float) -> float:
    """Training time of all attempts together."""
    return sum((a.ended or now) - a.began for a in attempts if a.began is not None)


def _runtime(record: JobRecord, request: TrainingRequest) -> Deadline | None:
    if record.stage != "training" or record.attempt.began is None:
        return None
    before = trained_seconds(record.attempts[:-1], record.attempt.began)
    left = request.max_runtime_seconds - before
    return Deadline(at=record.attempt.began + left, cause="max_runtime")


def _wait(record: JobRecord, request: TrainingRequest) -> Deadline | None:
    if request.max_wait_seconds is None:
        return None
    return Deadline(at=record.created + request.max_wait_seconds, cause="max_wait")


VARIABLE = "STOKER_HOLD"
_POLL_SECONDS = 0.2


class Breakpoints:
    """The points, if any, at which this server waits."""

    def __init__(self, environment: Mapping[str, str], closing: threading.Event) -> None:
        parts = environment.get(VARIABLE, "").split(";")
        pairs = [part.split("=", 1) for part in parts if "=" in part]
        self._files = {point: Path(file) for point, file in pairs}
        self._closing = closing

    def at(self, job: str, point: str) -> None:
        """Wait here if this is one of the points."""
        file = self._files.get(f"{job}/{point}")
        if file is None or not file.exists():
            return
        file.with_name(f"{file.name}.reached").touch()
        while file.exists() and not self._closing.wait(_POLL_SECONDS):
            pass


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
