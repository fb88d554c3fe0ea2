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
    from collections.abc import Callable

    from stoker.bus.stop import StopRequest
    from stoker.runtime.log import Log
    from stoker.runtime.sidecar import Sidecar
    from stoker.runtime.step import Step

STDOUT, STDERR = 1, 2
_REST_SECONDS = 0.01
_SMALL_READ_BYTES = 16 * 1024
_GROUP_POLL_SECONDS = 0.1
_DRAIN_SECONDS = 2.0
_DRAIN_IDLE_SECONDS = 0.02
# Of a process that died of a stop as it is sent on: SIGHUP becomes SIGTERM, and a rule's stop that
# the platform's follows stays the SIGTERM it was.
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

    def run(self, step: Step, beside: Callable[[], Sidecar | None] | None = None) -> Ended:
        """Starts a step and returns when its process has ended.

        Args:
            step: what to run.
            beside: starts the sidecar, once the step has been started.

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
            sidecar = beside() if beside is not None else None
            return _Loop(self, step, child, pumps, sidecar).run()
        finally:
            self.signals.forward_to(None)


class _Loop:
    """One child from start to end."""

    def __init__(
        self, watch: Watch, step: Step, child: Child, pumps: list[Pump], sidecar: Sidecar | None
    ) -> None:
        self._signals = watch.signals
        self._log = watch.log
        self._step = step
        self._pid = child.pid
        self._pumps = pumps
        self._sidecar = sidecar
        self._shown = [*pumps, *(sidecar.pumps if sidecar else ())]
        self._open = {pump.source: pump for pump in self._shown}
        self._poll = select.poll()
        self._poll.register(self._signals.wake_up, select.POLLIN)
        for source in self._open:
            self._poll.register(source, select.POLLIN)
        self._signal_poll = select.poll()
        self._signal_poll.register(self._signals.wake_up, select.POLLIN)
        self._last_output = 0.0
        self._exit_code: int | None = None
        self._request: StopRequest | None = None
        self._told_at = 0.0
        self._by_signal = 0
        self._was_killed = False

    def run(self) -> Ended:
        while self._exit_code is None:
            self._turn(self._timeout_seconds())
            self._reap()
            self._heed_sidecar()
            self._enforce_grace()
        stop_signal = self._signals.stop_signal
        if self._is_stopping() and self._exit_code in _STOPPED_CODES:
            self._stop_the_rest()
        self._drain()
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
        """Carries out a rule's wish to end the job: as the platform would, but once."""
        if self._sidecar is None or self._request is not None or self._exit_code is not None:
            return
        self._request = self._sidecar.look()
        if self._request is not None:
            self._log.info(f"stopping {self._step.name}, as {self._request.by} asks")
            self._told_at = time.monotonic()
            self._signals.tell_to_stop()

    def _is_stopping(self) -> bool:
        return self._signals.stop_signal is not None or self._request is not None

    def _turn(self, timeout_seconds: float | None) -> bool:
        """Waits for something to happen and deals with output; False if nothing did."""
        milliseconds = None if timeout_seconds is None else timeout_seconds * 1000 + 1
        happened = self._poll.poll(milliseconds)
        for source, _ in happened:
            if source == self._signals.wake_up:
                self._signals.drain()
            else:
                self._read(source)
        now = time.monotonic()
        for pump in self._shown:
            pump.show_partial_line(now)
        return bool(happened)

    def _read(self, source: int) -> None:
        size_bytes = self._open[source].read()
        if not size_bytes:
            self._poll.unregister(source)
            del self._open[source]
            return
        before, self._last_output = self._last_output, time.monotonic()
        if size_bytes < _SMALL_READ_BYTES and self._last_output - before < _REST_SECONDS:
            # Many small writes: one read for a hundredth of a second of them leaves the
            # processor to the script. A signal or the script's end cuts the rest short.
            self._signal_poll.poll(_REST_SECONDS * 1000)

    def _timeout_seconds(self) -> float | None:
        now = time.monotonic()
        waits = [pump.seconds_until_due(now) for pump in self._shown]
        if self._is_stopping() and not self._was_killed:
            waits.append(max(0.0, self._deadline() - now))
        if self._sidecar is not None and self._request is None:
            waits.append(self._sidecar.seconds_until_look(now))
        return min((wait for wait in waits if wait is not None), default=None)

    def _reap(self) -> None:
        """Collects our child and, as PID 1, everybody's orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._exit_code = exit_code_of(status)
                self._by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            elif self._sidecar is not None:
                self._sidecar.reap(pid, status)

    def _deadline(self) -> float:
        # The first of a rule's stop and the platform's: the later one is no new beginning.
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
            for pid in (self._pid, *descendants(self._pid)):
                send(pid, SIGKILL)

    def _stop_the_rest(self) -> None:
        """A wrapper that died of the signal may leave the real script behind, untold."""
        if not _signal_group(self._pid, SIGTERM):
            return
        while _signal_group(self._pid, 0) and time.monotonic() < self._deadline():
            self._turn(_GROUP_POLL_SECONDS)
            self._reap()

    def _drain(self) -> None:
        """Takes what the child wrote before it ended; bounded, should another one go on."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while any(p.source in self._open for p in self._pumps) and time.monotonic() < deadline:
            if not self._turn(_DRAIN_IDLE_SECONDS):
                return


def _tell(pid: int, number: int) -> None:
    # Never the whole group: torchrun tells its workers itself, and they must hear it once.
    if number == DUMP_SIGNAL:
        listeners = [p for p in (pid, *descendants(pid)) if catches(p, number)]
    else:
        listeners = recipients(pid, number)
    for listener in listeners:
        send(listener, number)


def _signal_group(pid: int, number: int) -> bool:
    """Signals a process group; False if nobody is left in it."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
