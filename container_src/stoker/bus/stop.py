"""Asking a worker to stop, and what it answers: SIGTERM, and two small files.

Under `output/stoker`:

    stop.json   written by a rule or a command that asks the job to stop and save
    left.json   written by the worker as it leaves: at which step, with which checkpoint

The launcher removes both at the start and quotes the second in the outcome.
"""

from __future__ import annotations

import os
import time

from stoker.contract.files import read_regular, remove_file, write_atomically
from stoker.contract.quick_json import dumps, loads
from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from stoker.contract.paths import Paths

GRACE_SECONDS = 105.0
"""What a worker has left after SIGTERM: SageMaker kills after 120."""


PLATFORM_VARIABLE = "STOKER_PLATFORM_STOPS"
"""Set to 1 by a platform that reads stop.json itself and sends SIGTERM to all hosts at once."""


class StopRequest(Record):
    """A request to end the job after the current step, with a checkpoint."""

    by: str
    """Who, as the outcome names it: "SIGTERM", "rule vanishing_gradient"."""
    reason: str = ""
    step: int = -1
    """The step at which it was seen to be needed; -1 where there is none."""
    is_sent_by_platform: bool = False
    """The platform knows of it and will send SIGTERM to all hosts; it is not ours to."""


class Left(Record):
    """How a worker left after a stop request."""

    by: str
    step: int
    checkpoint: int = -1
    """The step of the newest checkpoint that is saved; -1 if there is none."""
    reason: str = ""

    def __str__(self) -> str:
        saved = f"checkpoint {self.checkpoint} saved" if self.checkpoint >= 0 else "nothing saved"
        why = f" ({self.reason})" if self.reason else ""
        return f"by {self.by} at step {self.step}, {saved}{why}"


def write_stop_request(paths: Paths, request: StopRequest) -> None:
    """Asks the workers of this host to stop; the ranks of all hosts agree on the step."""
    _write(_stop_file(paths), request)


def read_stop_request(paths: Paths) -> StopRequest | None:
    """What was asked for; None if nothing was, or it cannot be read."""
    fields = _read(_stop_file(paths))
    try:
        return StopRequest.read(fields)
    except TypeError:  # not what we write
        return None


def write_left(paths: Paths, left: Left) -> None:
    """The worker's answer. The worker leaves even if it cannot be written."""
    try:
        _write(_left_file(paths), left)
    except OSError:
        return


def read_left(paths: Paths) -> Left | None:
    """How the worker left; None if it did not say."""
    fields = _read(_left_file(paths))
    try:
        return Left.read(fields)
    except TypeError:
        return None


def forget_stop(paths: Paths) -> None:
    """Removes what an attempt before this one has left."""
    remove_file(_stop_file(paths))
    remove_file(_left_file(paths))


class StopListener:
    """Handles SIGTERM for a whole process. A second SIGTERM ends the process, as by default."""

    def __init__(self) -> None:
        self.received_at: float | None = None
        """Monotonic time of the signal."""
        self._is_listening = False
        self._before: Callable[[int, FrameType | None], Any] | int | None = None

    def listen(self) -> None:
        """From now on SIGTERM is noted. In a thread that may not, nothing happens."""
        import signal

        if self._is_listening or self.received_at is not None:
            return
        try:
            before = signal.signal(signal.SIGTERM, self._receive)
        except ValueError:  # only the main thread may
            return
        self._is_listening = True
        # Not `is not`: each access to a bound method makes a new object.
        if before != self._receive:
            self._before = before

    def rest(self) -> None:
        """Restores the previous handler: no caller will ask any more whether SIGTERM came."""
        import signal

        if not self._is_listening or self.received_at is not None:
            return
        # A handler that the script has installed meanwhile is its own, and stays.
        if signal.getsignal(signal.SIGTERM) == self._receive:
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        self._is_listening = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        import signal

        if self.received_at is not None:  # a handler of the script that calls this one
            return
        self.received_at = time.monotonic()
        # First of all: a second SIGTERM then ends the process, whatever the script's handler does.
        signal.signal(number, signal.SIG_DFL)
        if callable(self._before):  # the script's own handler still runs
            self._before(number, frame)
        elif not self._is_listening and self._before == signal.SIG_DFL:
            os.kill(os.getpid(), number)  # restored after `rest`: no caller would ask for it


_LISTENERS: list[StopListener] = []


def stop_listener() -> StopListener:
    """The one of this process, listening: signals belong to processes, not to objects."""
    if not _LISTENERS:
        _LISTENERS.append(StopListener())
    _LISTENERS[0].listen()
    return _LISTENERS[0]


def find_stop(paths: Paths) -> StopRequest | None:
    """The request to stop this process, if there is one: SIGTERM, or stop.json."""
    if stop_listener().received_at is not None:
        return StopRequest(by="SIGTERM")
    return read_stop_request(paths) if os.path.exists(_stop_file(paths)) else None


def seconds_left() -> float:
    """How much of the grace time is left; endless where no signal has come."""
    received_at = stop_listener().received_at
    return float("inf") if received_at is None else received_at + GRACE_SECONDS - time.monotonic()


def _stop_file(paths: Paths) -> str:
    return f"{paths.output_dir}/stoker/stop.json"


def _left_file(paths: Paths) -> str:
    return f"{paths.output_dir}/stoker/left.json"


def _write(path: str, record: Record) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomically(path, dumps(record.__dict__))


def _read(path: str) -> dict[str, Any]:
    try:
        fields = loads(read_regular(path).decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
