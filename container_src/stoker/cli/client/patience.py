"""How long to wait between two looks at a job of SageMaker, and while AWS cannot be reached."""

from __future__ import annotations

import time
from collections.abc import Callable

from stoker.cloud.refusals import ConnectionLost
from stoker.machine.terminal import Terminal

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 5.0
_LOCAL_PAUSE_SECONDS = 0.3
_SLICE_SECONDS = 0.1
_LOST_SECONDS = 900.0  # a laptop may be closed and opened again; the job runs meanwhile
_LONGEST_LOST_PAUSE_SECONDS = 30.0


class Patience:
    """How long to wait between two looks, and while AWS cannot be reached."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        is_local: bool,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._terminal = terminal
        self._is_interrupted = is_interrupted
        self._is_local = is_local
        self._pause_seconds = _SHORTEST_PAUSE_SECONDS
        self._lost_since: float | None = None
        self._lost_pause_seconds = 1.0

    def wait(self, _seconds: float) -> None:
        """Between two looks; longer and longer while nothing is said."""
        self._lost_since, self._lost_pause_seconds = None, 1.0
        if self._is_local:  # a local platform is not billed by the call
            time.sleep(_LOCAL_PAUSE_SECONDS)
            return
        until = time.monotonic() + self._pause_seconds
        while time.monotonic() < until and not self._is_interrupted():
            time.sleep(_SLICE_SECONDS)
        self._pause_seconds = min(_LONGEST_PAUSE_SECONDS, self._pause_seconds * 1.25)

    def see_activity(self) -> None:
        """The job said something: look again soon."""
        self._pause_seconds = _SHORTEST_PAUSE_SECONDS

    def on_lost(self, error: ConnectionLost) -> None:
        """Wait and let the call be repeated; after a quarter of an hour the error is raised."""
        now = time.monotonic()
        self._lost_since = self._lost_since or now
        if now - self._lost_since > _LOST_SECONDS:
            raise error
        self._terminal.status(f"» {error.message}; trying again (the job continues)")
        time.sleep(self._lost_pause_seconds)
        self._lost_pause_seconds = min(_LONGEST_LOST_PAUSE_SECONDS, 2 * self._lost_pause_seconds)
