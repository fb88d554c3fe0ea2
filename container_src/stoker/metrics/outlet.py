"""A sink that never fails: what it cannot write now it keeps for another try."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stoker.metrics.sinks import Sink

_RETRY_SECONDS = 5.0
_MOST_KEPT_BYTES = 16 << 20
_LOG = logging.getLogger("stoker.metrics")


class Outlet:
    """Opens its sink when something comes; one warning says that it fails, one that it lost."""

    def __init__(self, make_sink: Callable[[], Sink], *, name: str) -> None:
        self._make_sink = make_sink
        self._name = name
        self._sink: Sink | None = None
        self._retry_at = 0.0
        self._has_failed = self._has_lost = False
        self._kept = b""

    def put(self, records: bytes | None, *, urgent: bool) -> bool:
        """Writes whole records after those kept; returns whether there is something left to do.

        Args:
            records: none to try again; empty ones open the sink.
            urgent: a caller waits, so also do what is usually done only now and then.
        """
        if records is None and not self._kept and self._sink is None:
            return False
        self._keep(records or b"")
        if self._retry_at and not urgent and time.monotonic() < self._retry_at:
            return True
        try:
            return self._pass_on(urgent=urgent)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._warn(error)
            return True

    def close(self) -> None:
        """The next records go to a new sink."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def forget(self) -> None:
        """In a forked child: the sink and what was kept for it are the parent's."""
        self.close()
        self._kept, self._retry_at = b"", 0.0

    def _keep(self, records: bytes) -> None:
        # One hand-over is always taken, however large.
        if len(self._kept) + len(records) <= _MOST_KEPT_BYTES or not self._kept:
            self._kept += records
        elif not self._has_lost:
            self._has_lost = True
            _LOG.warning("%s still cannot be written: what is logged now is lost", self._name)

    def _pass_on(self, *, urgent: bool) -> bool:
        if self._sink is None:
            self._sink = self._make_sink()
        if self._kept:
            self._sink.write(self._kept)
            self._kept = b""
        is_holding = self._sink.sync(urgent=urgent)
        self._retry_at = 0.0
        return is_holding

    def _warn(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            _LOG.warning(
                "%s cannot be written: %s; training continues, and writing is tried again\n"
                "  fix: free some space, or make it writable for this job",
                self._name,
                error.strerror or error,
            )
