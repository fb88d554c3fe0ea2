"""Running a step to its end: output, signals, orphans and deadlines in one loop, no threads."""

from __future__ import annotations

import os
import select
import time

from stoker.contract.outcome import exit_code_of
from stoker.contract.record import Record
from stoker.runtime.launch import Child, launch
from stoker.runtime.processes import catches, descendants, recipients
from stoker.runtime.pump import Pump
from stoker.runtime.signals import (
    DUMP_SIGNAL,
    SIGINT,
    SIGKILL,
    SIGTERM,
    Signals,
    kill_group,
    send,
    unblock_signals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stoker.bus.stop import StopRequest
    from stoker.runtime.log import Log
    from stoker.runtime.profiler import JobProfiler
    from stoker.runtime.sidecar import Sidecar
    from stoker.runtime.step import LaunchStep

STDOUT, STDERR = 1, 2
ENDLESS = float("inf")
_REST_SECONDS = 0.01
_SMALL_READ_BYTES = 16 * 1024
_GROUP_POLL_SECONDS = 0.1
_SETTLE_SECONDS = 0.05
_DRAIN_SECONDS = 2.0
_DRAIN_IDLE_SECONDS = 0.02
# The exit codes of a process that a forwarded stop has ended. SIGHUP is forwarded as SIGTERM, and
# a platform's stop that follows a rule's is not forwarded again.
_STOPPED_CODES = (128 + SIGINT, 128 + SIGTERM)


class Ended(Record):
    """How a step ended, and the last of what it said."""

    pid: int
    exit_code: int
    """Its own, or 128 + the signal that ended it."""
    by_signal: int = 0
    """The signal, if it was one: a script may exit with 137 by itself."""
    stdout_tail: str
    stderr_tail: str
    was_killed: bool = False
    """It did not stop within its grace time."""
    stopped_by: StopRequest | None = None
    """What a rule asked for, if one did before it ended."""
    was_told: bool = False
    """It got the rule's SIGTERM, too."""
    stop_signal: int | None = None
    """The platform's stop, if it came before the end: a later one explains nothing."""


class Watch:
    """Runs steps one after the other and keeps the platform's promises while it waits."""

    def __init__(self, signals: Signals, log: Log) -> None:
        self.signals = signals
        self.log = log
        self.profiler: JobProfiler | None = None
        """Records each step of the launcher, if the job is profiled."""

    def run(
        self,
        step: LaunchStep,
        start_sidecar: Callable[[], Sidecar | None] | None = None,
        *,
        prepare_end: Callable[[], None] | None = None,
    ) -> Ended:
        """Starts a step and returns when its process has ended.

        Args:
            step: what to run.
            start_sidecar: called once the step has been started.
            prepare_end: called once it has written something, or has run for a moment.

        Raises:
            LaunchFailed: it could not be started.
        """
        child = launch(step)
        self.signals.forward_to(lambda number: _tell(child.pid, number))
        unblock_signals()
        pumps = [
            Pump(child.stdout, STDOUT, mask=step.mask),
            Pump(child.stderr, STDERR, mask=step.mask),
        ]
        try:
            sidecar = start_sidecar() if start_sidecar is not None else None
            return _StepRun(self, step, child, pumps, sidecar).run(prepare_end)
        finally:
            self.signals.forward_to(None)


class EventLoop:
    """What the launcher waits for, whatever it runs: output, signals, the end of children."""

    def __init__(self, signals: Signals, pumps: Sequence[Pump]) -> None:
        self._signals = signals
        self._pumps = pumps
        self._open = {pump.source: pump for pump in pumps}
        self._poll = select.poll()
        for source in (signals.wake_up, *self._open):
            self._poll.register(source, select.POLLIN)
        self._signal_poll = select.poll()
        self._signal_poll.register(signals.wake_up, select.POLLIN)
        self._last_output = 0.0

    def turn(self, timeout_seconds: float, *, may_rest: bool = True) -> bool:
        """Waits for something to happen and deals with output; False if nothing did.

        Args:
            timeout_seconds: how long.
            may_rest: whether a process may still write: then a pause saves reads.
        """
        milliseconds = None if timeout_seconds == ENDLESS else timeout_seconds * 1000 + 1
        happened = self._poll.poll(milliseconds)
        for source, _ in happened:
            if source == self._signals.wake_up:
                self._signals.drain()
            else:
                self._read(source, may_rest=may_rest)
        now = time.monotonic()
        for pump in self._pumps:
            pump.show_partial_line(now)
        return bool(happened)

    def seconds_until_due(self, now: float) -> float:
        """When the next unfinished line should be shown."""
        waits = [pump.seconds_until_due(now) for pump in self._pumps]
        return min((wait for wait in waits if wait is not None), default=ENDLESS)

    def drain(self, pumps: Sequence[Pump]) -> None:
        """Reads what a child wrote before it ended; bounded, if another process still writes."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while any(p.source in self._open for p in pumps) and time.monotonic() < deadline:
            if not self.turn(_DRAIN_IDLE_SECONDS, may_rest=False):
                return

    def _read(self, source: int, *, may_rest: bool) -> None:
        size_bytes = self._open[source].read()
        if not size_bytes:
            self._poll.unregister(source)
            del self._open[source]
            return
        before, self._last_output = self._last_output, time.monotonic()
        is_frequent = self._last_output - before < _REST_SECONDS
        if may_rest and is_frequent and size_bytes < _SMALL_READ_BYTES:
            # Many small writes: one read for a hundredth of a second of them leaves the
            # processor to the script. A signal or the script's end cuts the rest short.
            self._signal_poll.poll(_REST_SECONDS * 1000)


def ended_children() -> Iterator[tuple[int, int]]:
    """Collects every child that has ended, as PID 1 also orphans: process id and wait status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


class _StepRun:
    """One child from start to end."""

    def __init__(
        self,
        watch: Watch,
        step: LaunchStep,
        child: Child,
        pumps: list[Pump],
        sidecar: Sidecar | None,
    ) -> None:
        self._signals = watch.signals
        self._log = watch.log
        self._step = step
        self._pid = child.pid
        self._pumps = pumps
        self._sidecar = sidecar
        self._loop = EventLoop(watch.signals, [*pumps, *(sidecar.pumps if sidecar else ())])
        self._exit_code: int | None = None
        self._request: StopRequest | None = None
        self._told_at = 0.0
        self._by_signal = 0
        self._was_killed = False

    def run(self, prepare_end: Callable[[], None] | None) -> Ended:
        if prepare_end is not None:
            # Not earlier: it would slow down the step's own start.
            self._loop.turn(min(_SETTLE_SECONDS, self._timeout_seconds()))
            prepare_end()
            self._reap()
        while self._exit_code is None:
            self._loop.turn(self._timeout_seconds())
            self._reap()
            self._heed_sidecar()
            self._enforce_grace()
        # Read now: a stop that comes while the rest is drained or evaluated explains nothing.
        stop_signal = self._signals.stop_signal
        if self._is_stopping() and self._exit_code in _STOPPED_CODES:
            self._stop_the_rest()
        self._loop.drain(self._pumps)
        # A background process that holds our pipes must not keep the job, and the bill, alive.
        kill_group(self._pid)
        for pump in self._pumps:
            pump.finish()
        return Ended(
            pid=self._pid,
            exit_code=self._exit_code,
            by_signal=self._by_signal,
            stdout_tail=self._pumps[0].tail(),
            stderr_tail=self._pumps[1].tail(),
            was_killed=self._was_killed,
            stopped_by=self._request or (self._sidecar.request() if self._sidecar else None),
            was_told=self._request is not None,
            stop_signal=stop_signal,
        )

    def _heed_sidecar(self) -> None:
        """Carries out a rule's request to end the job: as the platform would, but once."""
        if self._sidecar is None or self._request is not None or self._exit_code is not None:
            return
        self._request = self._sidecar.look()
        if self._request is not None:
            self._log.info(f"stopping {self._step.name}, as {self._request.by} asks")
            self._told_at = time.monotonic()
            self._signals.tell_to_stop()

    def _is_stopping(self) -> bool:
        return self._signals.stop_signal is not None or self._request is not None

    def _timeout_seconds(self) -> float:
        now = time.monotonic()
        waits = [self._loop.seconds_until_due(now)]
        if self._is_stopping() and not self._was_killed:
            waits.append(max(0.0, self._deadline() - now))
        if self._sidecar is not None and self._request is None:
            waits.append(self._sidecar.seconds_until_look(now))
        return min(waits)

    def _reap(self) -> None:
        for pid, status in ended_children():
            if pid == self._pid:
                self._exit_code = exit_code_of(status)
                self._by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            elif self._sidecar is not None:
                self._sidecar.reap(pid, status)

    def _deadline(self) -> float:
        # Counted from the first stop, a rule's or the platform's: a second one adds no time.
        stops = [self._told_at] if self._request is not None else []
        stops += [self._signals.stopped_at] if self._signals.stop_signal is not None else []
        return min(stops) + self._step.grace_seconds

    def _enforce_grace(self) -> None:
        stopping = self._is_stopping() and self._exit_code is None
        if stopping and not self._was_killed and time.monotonic() >= self._deadline():
            self._was_killed = True
            self._log.warning(
                f"{self._step.name} did not stop within {self._step.grace_seconds:.0f} s: killed"
            )
            # By their parents, not by the group: torchrun gives each of its workers a session of
            # its own.
            for pid in (self._pid, *descendants(self._pid)):
                send(pid, SIGKILL)

    def _stop_the_rest(self) -> None:
        """A wrapper that the signal has ended may leave the real script running: stop it, too."""
        if not _signal_group(self._pid, SIGTERM):
            return
        # Signal 0 only asks whether a process is left.
        while _signal_group(self._pid, 0) and time.monotonic() < self._deadline():
            self._loop.turn(_GROUP_POLL_SECONDS)
            self._reap()


def _tell(pid: int, number: int) -> None:
    # Never the whole group: torchrun signals its workers itself, and they must get it once.
    if number == DUMP_SIGNAL:
        listeners = [p for p in (pid, *descendants(pid)) if catches(p, number)]
    else:
        listeners = recipients(pid, number)
    for listener in listeners:
        send(listener, number)


def _signal_group(pid: int, number: int) -> bool:
    """Signals a process group; False if it has no process left."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
