"""The event file of a TensorBoard run, written by a thread of its own."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from typing import SupportsFloat

from stoker.contract.process_end import Stage, at_end
from stoker.metrics.backlog import Backlog
from stoker.metrics.events import make_file_version, make_scalar, make_session_start
from stoker.metrics.outlet import Outlet
from stoker.metrics.sinks import Sink, make_event_sink
from stoker.storage.event_records import make_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Scalar = tuple[float, int, str, SupportsFloat]
"""Wall time, step, tag, value."""

_FLUSH_SECONDS = 60.0  # half of SummaryWriter's
_STEPS = range(-(1 << 63), 1 << 63)
_LOG = logging.getLogger("stoker.metrics")


class EventStream:
    """Takes events from any thread; one for a folder, as TensorBoard follows one file at a time.

    What is added reaches the file within a second. A forked child continues in a separate file.
    """

    def __init__(self, folder: str, suffix: str = "") -> None:
        self.folder, self._suffix = folder, suffix
        self.users = 0
        self.goes_on = _has_events(folder)
        """Whether the run has event files already, and another process wrote them."""
        self._purges: bool | None = None
        self._has_refused = False
        self._outlet = Outlet(self._make_sink, name=folder)
        self._backlog: Backlog[Scalar | bytes | None] = Backlog(
            self._write, name=f"events in {folder}"
        )
        self.add_scalar = self._backlog.add
        """Takes a `Scalar`. It is encoded by the thread: a call takes a fraction of a µs."""
        at_end(self.flush, forget=self.forget, stage=Stage.OUTLET, at_stop=True)

    def add_message(self, message: bytes) -> None:
        """Adds an encoded `Event`; an empty one only makes sure that there is a file."""
        self._backlog.add(message, len(message) or 1)

    def purge_from_first_scalar(self) -> None:
        """The first scalar with a step above zero says where an interrupted run continues.

        Zero does not: scripts write sizes and settings there, however far they have got.
        """
        if self._purges is None:
            self._purges = True

    def flush(self, timeout_seconds: float = _FLUSH_SECONDS) -> None:
        """Waits until everything that was added is in the file."""
        self._backlog.flush(timeout_seconds)

    def close(self) -> None:
        """Flushes; what is added later goes to another file."""
        self._backlog.add(None)  # closed by the thread that writes: it may be at it
        self._backlog.close(_FLUSH_SECONDS)

    def forget(self) -> None:
        """In a forked child: file and thread are the parent's."""
        self._purges = False  # a helper is not a new attempt
        self._outlet.forget()
        self._backlog.forget()

    def _make_sink(self) -> Sink:
        header = make_record(make_file_version(time.time()))
        return make_event_sink(self.folder, self._suffix, header)

    def _write(self, items: list[Scalar | bytes | None], urgent: bool) -> bool:
        messages: list[bytes] = []
        for item in items:
            if isinstance(item, bytes):
                messages.append(item)
            elif item is not None:
                messages += self._encode(*item)
        records = b"".join(map(make_record, filter(None, messages)))
        owes = self._outlet.put(records if messages else None, urgent=urgent)
        if None in items:
            self._outlet.close()
        return owes

    def _encode(self, wall_time: float, step: int, tag: str, value: SupportsFloat) -> list[bytes]:
        if step not in _STEPS:
            self._refuse(step, tag)
            return []
        scalar = make_scalar(wall_time, step, str(tag).encode("utf-8", "replace"), float(value))
        if self._purges and step > 0:
            self._purges = False
            return [make_session_start(wall_time, step), scalar]
        return [scalar]

    def _refuse(self, step: int, tag: str) -> None:
        if not self._has_refused:
            self._has_refused = True
            _LOG.warning("%s: step %d has more than 64 bits; such points are left out", tag, step)


class EventFile:
    """One writer's access to a stream; replaces tensorboard's `EventFileWriter`."""

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue_size: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        del max_queue_size, flush_secs  # what they promise is kept whatever they say
        self._folder = os.fspath(logdir)
        self._key = (_absolute(self._folder), filename_suffix)
        _make_folder(self._key[0])
        self._is_closed = True
        self.reopen()

    @property
    def stream(self) -> EventStream:
        """The stream; used after a close, it continues in a new file."""
        self.reopen()
        return self._stream

    def add_event(self, event: Any) -> None:  # noqa: ANN401 - a protobuf message
        """Adds an `Event` message."""
        self.stream.add_message(event.SerializeToString())

    def get_logdir(self) -> str:
        """The folder of the file, as it was given."""
        return self._folder

    def flush(self) -> None:
        """Waits until everything that was added is in the file."""
        if not self._is_closed:
            self._stream.flush()

    def close(self) -> None:
        """Flushes, and closes the file if no other writer uses it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stream.users -= 1
        if self._stream.users == 0:
            _STREAMS.pop(self._key, None)
            self._stream.close()
        else:
            self._stream.flush()

    def reopen(self) -> None:
        """Makes a closed one usable again."""
        if self._is_closed:
            if self._key not in _STREAMS:
                _STREAMS[self._key] = EventStream(*self._key)
            self._stream = _STREAMS[self._key]
            self._stream.users += 1
            self._is_closed = False
            self._stream.add_message(b"")  # the file is there from now on, so the run is shown


_STREAMS: dict[tuple[str, str], EventStream] = {}
_OWN_FOLDERS: set[str] = set()


def _has_events(folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    # A file that this process wrote before does not make the run a resumed one.
    is_new = folder not in _OWN_FOLDERS
    _OWN_FOLDERS.add(folder)
    return is_new and any("tfevents" in name for name in names)


def _make_folder(folder: str) -> None:
    """At once, not by the thread: scripts put files of their own next to the events."""
    if "://" not in folder:
        # The thread that writes says what is wrong with it.
        with suppress(OSError):
            os.makedirs(folder, exist_ok=True)


def _absolute(folder: str) -> str:
    return folder if "://" in folder else os.path.abspath(folder)
