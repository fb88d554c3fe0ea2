"""The hosts of an attempt: waited for and signalled, all at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from stoker.machine.failures import EngineSilent
from stoker.platform.engines.engine import Engine, Exit
from stoker.platform.jobs.control import JobControl
from stoker.platform.jobs.state import HostExit

_WAIT_SECONDS = 5.0
_SILENCE_SECONDS = 1.0


class HostWatch:
    """One thread per host waits for its end and wakes the job's worker."""

    def __init__(self, engine: Engine, control: JobControl, names: Mapping[str, str]) -> None:
        """Begins to wait. Args: names: host → its run."""
        self._engine = engine
        self._control = control
        self._names = names
        self.exits: dict[str, HostExit] = {}
        self.killed = False
        self.silence: EngineSilent | None = None
        """Set while the engine does not answer: the hosts may run, and may have ended."""
        self._losses: list[Exception] = []
        # A host that ended while no server watched has ended: no deadline is held against it.
        for host, name in self._names.items():
            self._note(host, self._engine.wait(name, 0.0))
        for host in self._names.keys() - self.exits.keys():
            wait = partial(self._wait, host)
            threading.Thread(target=wait, name=f"wait-{self._names[host]}", daemon=True).start()

    def over(self) -> bool:
        """Whether every host has ended."""
        return len(self.exits) == len(self._names)

    def raise_losses(self) -> None:
        """Raises what kept a thread from waiting: the run is gone, or the server ends."""
        if self._losses:
            raise self._losses[0]

    def signal(self, number: int, *, spared: Collection[str] = ()) -> bool:
        """To every host that has not ended, but for some; to all of them at once.

        Ranks that receive it later than others fail, because their peers have left.

        Returns:
            Whether it has an effect on any of them.
        """
        hosts = self._names.keys() - self.exits.keys() - set(spared)
        names = [self._names[host] for host in hosts]
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            return any(list(pool.map(lambda name: self._engine.signal(name, number), names)))

    def kill_once(self) -> None:
        """SIGKILL, unless they got it already."""
        if not self.killed:
            self.killed = True
            self.signal(signal.SIGKILL)

    def _wait(self, host: str) -> None:
        try:
            while host not in self.exits:
                self._control.require_server()
                try:
                    self._note(host, self._engine.wait(self._names[host], _WAIT_SECONDS))
                    self.silence = None
                except EngineSilent as silence:
                    self.silence = silence
                    self._control.wake.set()
                    time.sleep(_SILENCE_SECONDS)
        except Exception as error:  # whatever it is, it must end the attempt, not just a thread
            self._losses.append(error)
        self._control.wake.set()

    def _note(self, host: str, exit_: Exit | None) -> None:
        if exit_ is not None:
            self.exits[host] = HostExit(
                code=exit_.code, oom_killed=exit_.oom_killed, error=exit_.error
            )
