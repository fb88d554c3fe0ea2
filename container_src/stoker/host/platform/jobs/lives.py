"""All jobs that are under way: begun, stopped, adopted after a restart, let go of at the end."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Mapping

from stoker.errors import HostError
from stoker.host.platform.jobs.changes import ask_to_stop
from stoker.host.platform.jobs.control import JobControl
from stoker.host.platform.jobs.holds import Holds
from stoker.host.platform.jobs.life import Life
from stoker.host.platform.jobs.slots import Slots
from stoker.host.platform.jobs.state import JobRecord
from stoker.host.platform.jobs.store import Store
from stoker.host.platform.jobs.surroundings import Surroundings

GRACE_VARIABLE = "STOKER_GRACE_SECONDS"
_GRACE_SECONDS = 120.0
_CLOSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Lives:
    """One thread per unfinished job."""

    def __init__(self, around: Surroundings, store: Store) -> None:
        self._around = around
        self._store = store
        self._closing = threading.Event()
        self._holds = Holds(around.environment, self._closing)
        self._slots = Slots(around.slots)
        self._grace_seconds = read_grace_seconds(around.environment)
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Life, JobControl]] = {}

    def adopt(self) -> None:
        """Go on with every job an earlier server left, and remove what belongs to none."""
        unfinished = self._store.unfinished()
        sweep(self._around, {record.name for record in unfinished})
        for record in unfinished:
            if record.stage != "queued":
                self._slots.adopt(record.name)
        for record in unfinished:
            _log.info("%s: taken over in the stage %s", record.name, record.stage)
            self.begin(record)

    def begin(self, record: JobRecord) -> None:
        """Start the life of a job that is in the store."""
        control = JobControl(record.name, self._store, self._closing)
        life = Life(
            control,
            self._around,
            slots=self._slots,
            holds=self._holds,
            grace_seconds=self._grace_seconds,
        )
        with self._lock:
            if record.stage == "queued":  # now, not in its thread: the order is that of coming
                self._slots.ask(record.name, control.wake)
            self._running = {n: each for n, each in self._running.items() if each[0].is_alive()}
            self._running[record.name] = (life, control)
            life.start()

    def count(self) -> int:
        """How many jobs are under way or wait."""
        with self._lock:
            return sum(life.is_alive() for life, _ in self._running.values())

    def stop(self, name: str) -> None:
        """Record that a job is to stop, and wake it."""
        now = time.time()
        self._store.change(
            name, lambda r: r if r.stage == "ended" or r.stop_asked else ask_to_stop(r, now)
        )
        with self._lock:
            found = self._running.get(name)
        if found is not None:
            found[1].call_off()

    def close(self) -> None:
        """Let go of all jobs: what runs goes on and is adopted by the next server."""
        self._closing.set()
        with self._lock:
            running = list(self._running.values())
        for _, control in running:
            control.call_off()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for life, _ in running:
            life.join(max(0.0, deadline - time.monotonic()))


def read_grace_seconds(environment: Mapping[str, str]) -> float:
    """How long a host may take to end after SIGTERM: the service's 120 s, or as the user says.

    Raises:
        HostError: what the user says is no number.
    """
    text = environment.get(GRACE_VARIABLE, "")
    try:
        seconds = float(text) if text else _GRACE_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise HostError(
            f"{GRACE_VARIABLE}={text!r} is not a number of seconds",
            fix=f"leave it out for the service's {_GRACE_SECONDS:.0f} s, or write e.g. 10",
        )
    return seconds


def sweep(around: Surroundings, unfinished: set[str]) -> None:
    """Remove runs, networks and folders that belong to no unfinished job."""
    strays = [run for run in around.engine.list_running() if run.job not in unfinished]
    for run in strays:
        _log.warning("%s: a left-over run is removed", run.name)
        around.engine.remove(run.name)
    for job in {run.job for run in strays}:
        around.engine.remove_network(job)
    for folder in around.root.jobs_dir.iterdir():
        if folder.name not in unfinished:
            shutil.rmtree(folder, ignore_errors=True)
    around.engine.sweep()
