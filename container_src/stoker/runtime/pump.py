"""A worker's output on its way to the log: whole lines, at once, in bounded memory.

Bytes pass through unchanged except for carriage returns: frames of a progress bar, which end in a
bare one, become separate lines, at most one per second; a Windows line end in the same text
becomes a plain newline.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TAIL_BYTES = 64 * 1024
"""What is remembered of each stream for the failure reason."""

LONGEST_LINE_BYTES = 256 * 1024
"""A longer line is passed on in pieces (nothing is lost); CloudWatch splits there anyway."""

PARTIAL_LINE_SECONDS = 0.5
FRAME_SECONDS = 1.0
_CHUNK_BYTES = 64 * 1024


class Pump:
    """Copies one stream of a child to our stdout or stderr, line by line."""

    def __init__(
        self, source: int, sink: int, *, mask: Callable[[str], str] | None = None
    ) -> None:
        self.source = source
        self._sink: int | None = sink
        self._mask = mask
        self._pending = b""
        self._pending_since = 0.0
        self._line_is_open = False
        self._last_frame = 0.0
        self._tail = bytearray()

    def read(self) -> int:
        """Takes what is there, passes on all whole lines; returns its size, 0 at the end."""
        try:
            chunk = os.read(self.source, _CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            return 0
        if not self._pending:
            self._pending_since = time.monotonic()
        text = self._pending + chunk
        if b"\r" in text:
            text = self._take_frames(text)
        end = text.rfind(b"\n") + 1
        if end:
            self._write(text[:end])
            self._line_is_open = False
            self._pending_since = time.monotonic()
        self._pending = text[end:]
        if len(self._pending) > LONGEST_LINE_BYTES:
            self._flush_pending()
        return len(chunk)

    def seconds_until_due(self, now: float) -> float | None:
        """When an unfinished line should be shown; None if there is none."""
        if not self._pending.strip(b"\r"):
            return None
        return max(0.0, self._pending_since + PARTIAL_LINE_SECONDS - now)

    def show_partial_line(self, now: float) -> None:
        """Shows a line that has waited long enough for its end (a prompt, a slow step)."""
        if self.seconds_until_due(now) == 0.0:
            self._flush_pending()

    def finish(self) -> None:
        """Passes on what is left and ends its line, so that our own lines start fresh."""
        self._flush_pending()
        if self._line_is_open:
            self._write(b"\n")
            self._line_is_open = False
        os.close(self.source)

    def tail(self) -> str:
        """The last part of the stream, as text."""
        return bytes(self._tail[-TAIL_BYTES:]).decode("utf-8", "replace")

    def _take_frames(self, text: bytes) -> bytes:
        """Passes on everything up to the last bare carriage return; returns what follows it."""
        # A carriage return at the end may be half of \r\n: it waits for the next byte.
        held = b"\r" if text.endswith(b"\r") else b""
        text = text[: len(text) - len(held)]
        *frames, rest = text.replace(b"\r\n", b"\n").split(b"\r")
        for frame in frames:
            lines_end = frame.rfind(b"\n") + 1
            if lines_end:
                self._write(frame[:lines_end])
                self._line_is_open = False
            self._show_frame(frame[lines_end:])
        return rest + held

    def _show_frame(self, frame: bytes) -> None:
        now = time.monotonic()
        if self._line_is_open:
            self._write(b"\n")  # its text was shown as a partial line already
        elif frame.strip() and now - self._last_frame >= FRAME_SECONDS:
            self._last_frame = now
            self._write(frame + b"\n")
        self._line_is_open = False

    def _flush_pending(self) -> None:
        if not self._pending.strip(b"\r"):
            return
        text = self._pending.rstrip(b"\r")
        self._line_is_open = text == self._pending
        # A frame that ends in its carriage return is whole: it gets its line end.
        self._write(text if self._line_is_open else text + b"\n")
        self._pending = b""

    def _write(self, text: bytes) -> None:
        if self._mask is not None:
            text = self._mask(text.decode("utf-8", "replace")).encode()
        self._tail += text
        if len(self._tail) > 2 * TAIL_BYTES:  # trimmed rarely, so a line costs O(1)
            del self._tail[:-TAIL_BYTES]
        if self._sink is not None and not write_all(self._sink, text):
            self._sink = None  # the log has no reader any more: the job continues


def write_all(sink: int, text: bytes) -> bool:
    """Writes everything, waiting where the reader is slow; False if there is no reader."""
    view = memoryview(text)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            select.select([], [sink], [])
        except OSError:
            return False
    return True
