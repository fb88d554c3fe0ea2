"""All jobs in progress: started, stopped, adopted after a restart, within the slots."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from stoker.errors import HostError
from stoker.platform.data.confined import remove_tree
from stoker.platform.jobs.changes import ask_to_pause, ask_to_stop, resume
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.control import Breakpoints, JobControl, Slots
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store
from stoker.platform.jobs.warm_pools import WarmPools
from stoker.platform.jobs.worker import JobWorker

GRACE_VARIABLE = "STOKER_GRACE_SECONDS"
_GRACE_SECONDS = 120.0  # the service's, between SIGTERM and SIGKILL
_CLOSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class JobSupervisor:
    """One thread per unfinished job."""

    def __init__(self, context: JobContext, store: Store) -> None:
        self._context = context
        self._store = store
        self._closing = threading.Event()
        self._breakpoints = Breakpoints(context.environment, self._closing)
        self._slots = Slots(context.slots)
        self.pools = WarmPools(context, store)
        self._grace_seconds = read_grace_seconds(context.environment)
        self._lock = threading.Lock()
        self._running: dict[str, tuple[JobWorker, JobControl]] = {}

    def adopt(self) -> None:
        """Continue every job that an earlier server left, and remove what belongs to none."""
        unfinished = self._store.unfinished()
        sweep(self._context, {record.name for record in unfinished})
        self.pools.adopt(unfinished)
        for record in unfinished:
            # All of them before the first one begins: a queued job must not get the place of one
            # that runs.
            if record.stage != "queued":
                self._slots.adopt(record.name)
        for record in unfinished:
            _log.info("%s: taken over in the stage %s", record.name, record.stage)
            self.begin(record)

    def begin(self, record: JobRecord) -> None:
        """Start the worker of a job that is in the store."""
        control = JobControl(record.name, self._store, self._closing)
        with self._lock:
            before = self._running.get(record.name)
            worker = JobWorker(
                control,
                self._context,
                slots=self._slots,
                pools=self.pools,
                breakpoints=self._breakpoints,
                grace_seconds=self._grace_seconds,
                after=before[0] if before else None,
            )
            if record.stage == "queued":  # now, not in its thread: the order is that of coming
                self._slots.ask(record.name, control.wake)
            self._running = {n: each for n, each in self._running.items() if each[0].is_alive()}
            self._running[record.name] = (worker, control)
            worker.start()

    def count(self) -> int:
        """How many jobs are under way or wait."""
        with self._lock:
            return sum(worker.is_alive() for worker, _ in self._running.values())

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

    def pause(self, name: str) -> None:
        """Interrupt a running job with a warning, as a spot machine does, until `resume`."""
        self._change(name, ask_to_pause)

    def resume(self, name: str) -> None:
        """Let a paused job continue from its checkpoints, when there is a place."""
        self._change(name, resume)

    def _change(self, name: str, function: Callable[[JobRecord, float], JobRecord]) -> None:
        now = time.time()
        self._store.change(name, lambda r: r if r.stage == "ended" else function(r, now))
        with self._lock:
            found = self._running.get(name)
        if found is not None:
            found[1].wake.set()

    def close(self) -> None:
        """Release all jobs: they continue and are adopted by the next server."""
        self._closing.set()
        with self._lock:
            running = list(self._running.values())
        for _, control in running:
            control.call_off()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker, _ in running:
            worker.join(max(0.0, deadline - time.monotonic()))
        self.pools.close()


def read_grace_seconds(environment: Mapping[str, str]) -> float:
    """How long a host may take to end after SIGTERM: the service's 120 s, or as the user says.

    Raises:
        HostError: the user's value is not a number.
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


def sweep(context: JobContext, unfinished: set[str]) -> None:
    """Remove runs, networks and folders that belong to no unfinished job."""
    strays = [run for run in context.engine.list_runs() if run.job not in unfinished]
    for run in strays:
        _log.warning("%s: a left-over run is removed", run.name)
        context.engine.remove(run.name)
    for job in {run.job for run in strays}:
        context.engine.remove_network(job)
    for folder in context.root.jobs_dir.iterdir():
        if folder.name not in unfinished:
            try:
                remove_tree(folder)
            except OSError as error:  # the server starts anyway
                _log.warning("%s cannot be removed: %s; fix: sudo rm -r it", folder, error)
    context.engine.sweep()
