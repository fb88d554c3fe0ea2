"""From the bytes a host writes to the lines of its log stream, every line once.

How far the pump has come is not noted anywhere: it is the number of lines stored since the
attempt began. A restarted server reads the host's output from its first byte and leaves out as
many lines as are there, which is right because splitting is a pure function of the bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from stoker.machine.failures import EngineLost
from stoker.platform.data.log_streams import LogStreams, size_of, to_text
from stoker.platform.engines.engine import Engine

LINE_BYTES = 256 * 1024
"""CloudWatch's limit for one event; a longer line becomes several."""

MOST_BYTES = 2**30
"""Of one host's stream: what a script writes without end must not fill the disk."""

_LAST_TRIES = 5
_RETRY_SECONDS = 1.0


class LineSplitter:
    """Bytes in, whole lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that are complete now."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        lines = [_text(piece) for line in whole for piece in _pieces(line)]
        *long, self._rest = _pieces(self._rest)
        return [*lines, *map(_text, long)]

    def end(self) -> list[str]:
        """What was written last, without a line's end."""
        last, self._rest = self._rest, b""
        return [_text(last)] if last else []


class LogPump(threading.Thread):
    """Follows one host of one attempt until its output ends."""

    def __init__(
        self,
        engine: Engine,
        streams: LogStreams,
        *,
        name: str,
        job: str,
        host: str,
        before: int,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        super().__init__(name=f"log-{name}", daemon=True)
        self._engine = engine
        self._streams = streams
        self._run_name = name
        self._job = job
        self._host = host
        self._before = before
        self._most_bytes = most_bytes
        self._moved = time.monotonic()
        self.run_is_over = threading.Event()
        self.failure: Exception | None = None
        """Why lines are missing, if any are."""

    def run(self) -> None:
        """Pump; a full disk or an engine that restarts is tried again, from what is stored.

        While the run continues, a user may still free disk space; after its end tries are limited.
        """
        last_tries = 0
        while last_tries < _LAST_TRIES:
            try:
                self._pump()
            except (OSError, EngineLost) as error:
                self.failure = error
                last_tries += self.run_is_over.is_set()
                time.sleep(_RETRY_SECONDS)
            else:
                self.failure = None
                return

    def idle_seconds(self) -> float:
        """Since it read something; a long log after a restart takes its time."""
        return time.monotonic() - self._moved

    def _pump(self) -> None:
        stored = count_lines(self._streams, self._job, self._host) - self._before
        stream = self._streams.create(self._job, self._host)
        is_cut = size_of(stream) > self._most_bytes
        for lines in self._batches():
            if is_cut:
                continue
            fresh = lines[stored:] if stored else lines
            stored = max(0, stored - len(lines))
            if fresh:
                now = int(time.time() * 1000)
                self._streams.append(self._job, self._host, [(now, line) for line in fresh])
                is_cut = size_of(stream) > self._most_bytes
                if is_cut:
                    text = f"[stoker] the log is cut here: it has {self._most_bytes:,} bytes"
                    self._streams.append(self._job, self._host, [(now, text)])

    def _batches(self) -> Iterator[list[str]]:
        splitter = LineSplitter()
        for chunk in self._engine.read_log(self._run_name, 0):
            self._moved = time.monotonic()
            yield splitter.feed(chunk)
        yield splitter.end()


def count_lines(streams: LogStreams, job: str, host: str) -> int:
    """How many lines a host's stream holds."""
    return sum(1 for _ in streams.read(job, host, 0))


def _pieces(line: bytes) -> list[bytes]:
    """A line in parts that are not too long, none cut within a character."""
    pieces = []
    while len(line) > LINE_BYTES:
        cut = LINE_BYTES
        while cut > LINE_BYTES - 4 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


def _text(line: bytes) -> str:
    return to_text(line).rstrip("\r")
