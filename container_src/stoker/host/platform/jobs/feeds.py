"""The Pipe channels of all hosts of one attempt."""

from __future__ import annotations

import threading
from collections.abc import Collection

from stoker.host.platform.around.pipes import Pipes
from stoker.host.platform.engines.engine import EngineLost
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.request import TrainingRequest


class Feeds:
    """Feeds the FIFOs while the hosts run; nothing to do without Pipe channels."""

    def __init__(
        self, request: TrainingRequest, around: Surroundings, wake: threading.Event
    ) -> None:
        """Args: wake: set when a pipe ends too early."""
        self._channels = [c.name for c in request.channels if c.mode == "Pipe"]
        self._pipes = [
            Pipes(
                request,
                host,
                around.storage,
                around.root.host_dir(request.name, host),
                on_failure=wake.set,
            )
            for host in (request.hosts if self._channels else ())
        ]

    def start(self, adopted: Collection[str]) -> None:
        """Begin to feed.

        Args:
            adopted: the hosts that an earlier server started.

        Raises:
            EngineLost: the hosts run already: what they have read of their pipes nobody knows.
        """
        if self._channels and adopted:
            raise EngineLost(
                f"the server ended while it fed the Pipe channels {', '.join(self._channels)}: "
                "the job would have seen only a part of its data",
                fix="submit the job again; with RetryStrategy this happens by itself",
            )
        for pipes in self._pipes:
            pipes.start()

    def stop(self) -> None:
        """Remove the FIFOs."""
        for pipes in self._pipes:
            pipes.stop()

    def require_whole(self) -> None:
        """Raises DownloadFailed if a pipe ended too early: the job saw a part of its data."""
        for pipes in self._pipes:
            if pipes.failure is not None:
                raise pipes.failure
