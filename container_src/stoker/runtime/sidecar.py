"""Stoker's own process that runs with the worker: its lines, its requests, its end."""

from __future__ import annotations

import os
import time

from stoker.bus.stop import read_stop_request
from stoker.contract.outcome import exit_code_of
from stoker.runtime.launch import launch
from stoker.runtime.pump import Pump
from stoker.runtime.signals import (
    SIGINT,
    SIGTERM,
    kill_group,
    send,
    unblock_signals,
)
from stoker.runtime.watch import STDERR, STDOUT, EventLoop, ended_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.bus.stop import StopRequest
    from stoker.contract.paths import Paths
    from stoker.runtime.signals import Signals
    from stoker.runtime.step import LaunchStep

LOOK_SECONDS = 0.5
"""Between two looks for a request to stop."""

STOPPED_SECONDS = 112.0
"""When it must conclude, counted from a stop of the platform, which kills 120 s after it."""

LAST_SECONDS = 116.0
"""When it ends at the latest, counted likewise: the rest is for the outcome to be written."""

PLATFORM_SECONDS = 60.0
"""How long the platform may take to send the SIGTERM it was asked for."""

_CONCLUDE_SECONDS = 20.0  # three of them for a rule that hangs; a busy disk takes its time, too


class Sidecar:
    """Started with the worker, in its own session; its failure is never the job's."""

    def __init__(
        self, step: LaunchStep, paths: Paths, *, tell: Callable[[str], None] = lambda trouble: None
    ) -> None:
        """Args:
            step: how to run it.
            paths: of the job.
            tell: called at once if it fails while the worker is still at work.

        Raises:
            LaunchFailed: it cannot be started.
        """
        self._child = launch(step)
        unblock_signals()
        self._name = step.name
        self._paths = paths
        self._tell = tell
        self._next_look = 0.0
        self._sends_at: float | None = None
        self._request: StopRequest | None = None
        self._exit_code: int | None = None
        self.is_told_stopped = False
        self.trouble = ""
        """How it failed, if it did."""
        self.pumps = [
            Pump(self._child.stdout, STDOUT, mask=step.mask),
            Pump(self._child.stderr, STDERR, mask=step.mask),
        ]

    def look(self) -> StopRequest | None:
        """A stop that is to be carried out now; at most one look in a while touches the disk."""
        now = time.monotonic()
        if self._request is None and now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._request = read_stop_request(self._paths)
            if self._request is not None:
                # Ranks whose peers are gone fail instead of saving, so on several hosts the
                # platform stops all at once (decision 29). If it does not, this launcher does.
                waits = self._request.is_sent_by_platform
                self._sends_at = now + (PLATFORM_SECONDS if waits else 0.0)
        is_due = self._sends_at is not None and now >= self._sends_at
        return self._request if is_due else None

    def request(self) -> StopRequest | None:
        """What has been asked for so far, due or not."""
        self._next_look = 0.0
        self.look()
        return self._request

    def seconds_until_look(self, now: float) -> float:
        return max(0.0, (self._next_look if self._request is None else self._sends_at or 0) - now)

    def reap(self, pid: int, status: int) -> None:
        """Takes note if a process that ended, while the worker is at work, was this one."""
        if pid != self._child.pid:
            return
        self._note_end(status)
        if self.trouble:
            self._tell(self.trouble)

    def tell_stopped(self) -> None:
        """The job was stopped from outside: the rest is evaluated, and not called complete."""
        self.is_told_stopped = True
        self._send(SIGTERM)

    def finish(self, signals: Signals, *, limit_seconds: float) -> None:
        """Waits for its end after the worker's; then insists.

        Args:
            signals: a stop that comes meanwhile shortens the wait.
            limit_seconds: what it gets for what is left to do.
        """
        self._wait(signals, limit_seconds, STOPPED_SECONDS)
        if self._exit_code is None:
            self._send(SIGINT)
            self._wait(signals, _CONCLUDE_SECONDS, LAST_SECONDS)
        if self._exit_code is None:
            self.trouble = f"{self._name} did not end in time and was killed"
        if self.is_told_stopped and self._exit_code == 128 + SIGTERM:
            self.trouble = ""  # told so early that it did not listen yet
        kill_group(self._child.pid)
        for pump in self.pumps:
            pump.finish()

    def _wait(self, signals: Signals, limit_seconds: float, stopped_seconds: float) -> None:
        """Passes on its lines until it has ended, or the time is over: since now, or a stop."""
        deadline = time.monotonic() + limit_seconds
        loop = EventLoop(signals, self.pumps)
        self._reap_all()
        while self._exit_code is None:
            if signals.stop_signal is not None:
                deadline = min(deadline, signals.stopped_at + stopped_seconds)
            now = time.monotonic()
            if now >= deadline:
                return
            loop.turn(min(deadline - now, loop.seconds_until_due(now)))
            self._reap_all()
        loop.drain(self.pumps)

    def _reap_all(self) -> None:
        # All of them: as PID 1 the launcher inherits orphans, and no other loop runs by now.
        for pid, status in ended_children():
            if pid == self._child.pid:
                self._note_end(status)

    def _note_end(self, status: int) -> None:
        self._exit_code = exit_code_of(status)
        if self._exit_code != 0:
            is_signal = os.WIFSIGNALED(status)
            how = f"signal {os.WTERMSIG(status)}" if is_signal else f"exit code {self._exit_code}"
            self.trouble = f"{self._name} ended with {how}; the training is not touched by it"

    def _send(self, number: int) -> None:
        if self._exit_code is None:
            send(self._child.pid, number)
