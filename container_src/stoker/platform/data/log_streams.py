"""Log streams on disk: one file per host and job, one JSON line `[milliseconds, text]` per event.

A place in a stream is a byte offset at the start of a line: it stays right for ever, since a
stream only grows. Times never fall within a stream (SDK v2 resumes by the last time it saw), so
the first event of a moment is found by bisection.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stoker.platform.model.processing_request import PREFIX
from stoker.platform.model.root import Root

_JOB = re.compile(rf"({re.escape(PREFIX)})?[a-zA-Z0-9](-*[a-zA-Z0-9]){{0,62}}")
_STREAM = re.compile(r"(?P<host>[a-z0-9]+-\d+)-(?P<epoch>\d+)")


class Event(NamedTuple):
    """One line of a job's log."""

    time_ms: int
    text: str
    end: int
    """The offset behind it: where to continue reading."""


class Stream(NamedTuple):
    """One host's log."""

    name: str
    """As CloudWatch has it: `<job>/<host>-<epoch>`."""

    host: str
    created_ms: int
    file: Path


_CONTROLS = {code: "?" for code in (*range(32), 127) if chr(code) not in "\t\n\r\x1b"}


class LogStreams:
    """All log streams of a root; safe to use from several threads."""

    def __init__(self, root: Root) -> None:
        self._folder = root.logs_dir
        self._lock = threading.Lock()
        self._last_ms: dict[Path, int] = {}

    def create(self, job: str, host: str, epoch: int | None = None) -> Stream:
        """Make a host's stream; one that is there already is kept, restarts of the job included.

        Args:
            job: the training job.
            host: for example `algo-1`.
            epoch: seconds, part of the stream's name; now if not given.
        """
        with self._lock:
            existing = self._find(job, host)
            if existing:
                return existing
            folder = self._job_folder(job)
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{host}-{int(time.time()) if epoch is None else epoch}.jsonl"
            file.touch()
            return _stream(job, file)

    def append(self, job: str, host: str, lines: Sequence[tuple[int, str]]) -> None:
        """Add events, each with its time in milliseconds; a time before the last is raised to it.

        Raises:
            KeyError: there is no such stream.
        """
        with self._lock:
            stream = self._find(job, host)
            if stream is None:
                raise KeyError(f"{job}/{host}")
            last = self._last_ms.get(stream.file)
            if last is None:
                last = _repair(stream.file)
            written = bytearray()
            for time_ms, text in lines:
                last = max(last, time_ms)
                written += _encoded(last, text)
            # Until it is written, the file may end in half a line: it is then repaired next time.
            self._last_ms.pop(stream.file, None)
            with stream.file.open("ab") as file:
                file.write(written)
            self._last_ms[stream.file] = last

    def streams(self, job: str) -> list[Stream]:
        """The streams of a job, by name; none for a job that has not started."""
        try:
            files = sorted(self._job_folder(job).glob("*.jsonl"))
        except ValueError:
            return []
        return [_stream(job, file) for file in files if _STREAM.fullmatch(file.stem)]

    def names(self, job: str) -> list[str]:
        """The names of a job's streams."""
        return [stream.name for stream in self.streams(job)]

    def jobs(self) -> list[str]:
        """All jobs that have streams."""
        return sorted(folder.name for folder in self._folder.iterdir() if folder.is_dir())

    def read(self, job: str, host: str, start: int = 0) -> Iterator[Event]:
        """The events of a host from an offset on; nothing if there is no such stream."""
        stream = self._find(job, host)
        if stream:
            yield from read_events(stream, start)

    def remove(self, job: str) -> None:
        """Remove all streams of a job."""
        with self._lock:
            folder = self._job_folder(job)
            self._last_ms = {f: ms for f, ms in self._last_ms.items() if f.parent != folder}
            shutil.rmtree(folder, ignore_errors=True)

    def _find(self, job: str, host: str) -> Stream | None:
        return next((stream for stream in self.streams(job) if stream.host == host), None)

    def _job_folder(self, job: str) -> Path:
        # The name may come from a client: nothing that could leave the folder gets through.
        if not _JOB.fullmatch(job):
            raise ValueError(f"not a job name: {job!r}")
        return self._folder / job


def read_events(stream: Stream, start: int = 0) -> Iterator[Event]:
    """The events of a stream from an offset on; a line that is still being written is not one."""
    with stream.file.open("rb") as file:
        file.seek(start)
        end = start
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            time_ms, text = json.loads(line)
            yield Event(time_ms, text, end)


def offset_at(stream: Stream, time_ms: int) -> int:
    """The offset of the first event that is not before a moment."""
    with stream.file.open("rb") as file:
        low, high = 0, size_of(stream)
        while low < high:
            middle = (low + high) // 2
            start, event = _event_behind(file, middle)
            if event is None or start >= high or event.time_ms >= time_ms:
                high = middle
            else:
                low = event.end
        return _event_behind(file, low)[0]


def offset_before(stream: Stream, end: int, *, events: int, bytes_at_most: int) -> int:
    """The offset from which on at most so many events lie before another offset."""
    with stream.file.open("rb") as file:
        begin = max(0, end - bytes_at_most)
        if begin:
            begin = _event_behind(file, begin)[0]
        file.seek(begin)
        lines = file.read(max(0, end - begin)).splitlines(keepends=True)
    if not lines and end:  # one line that is longer than allowed: it alone
        return _last_line_start(stream, end)
    return end - sum(map(len, lines[-events:]))


def size_of(stream: Stream) -> int:
    """The offset behind the last event."""
    with stream.file.open("rb") as file:
        return _whole_bytes(file)


def _stream(job: str, file: Path) -> Stream:
    named = _STREAM.fullmatch(file.stem)
    if named is None:
        raise ValueError(f"not a log stream: {file}")
    epoch_ms = int(named["epoch"]) * 1000
    return Stream(f"{job.removeprefix(PREFIX)}/{file.stem}", named["host"], epoch_ms, file)


def to_text(raw: bytes) -> str:
    """What a job wrote, to be read: as UTF-8, with `?` for control characters.

    JSON writes six bytes for each of them: a log of NUL bytes would grow six-fold. Tabs and the
    escapes of colours stay.
    """
    return raw.decode(errors="replace").translate(_CONTROLS)


def _encoded(time_ms: int, text: str) -> bytes:
    line = json.dumps([time_ms, text], ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate becomes `\udXXX`, which is what JSON calls it.
    return line.encode(errors="backslashreplace") + b"\n"


def _repair(file: Path) -> int:
    """Cut off a line that a killed server left half written; the time of the last whole one."""
    with file.open("rb+") as stream:
        size = _whole_bytes(stream)
        stream.truncate(size)
        if not size:
            return 0
        begin = _line_start(stream, size)
        stream.seek(begin)
        last_ms: int = json.loads(stream.readline())[0]
        return last_ms


def _whole_bytes(file: BinaryIO) -> int:
    size = file.seek(0, 2)
    if not size:
        return 0
    file.seek(size - 1)
    return size if file.read(1) == b"\n" else _line_start(file, size + 1)


def _line_start(file: BinaryIO, end: int, block: int = 65_536) -> int:
    """Where the line begins that ends (with its newline) at an offset."""
    position = end - 1
    while position > 0:
        begin = max(0, position - block)
        file.seek(begin)
        newline = file.read(position - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        position = begin
    return 0


def _last_line_start(stream: Stream, end: int) -> int:
    with stream.file.open("rb") as file:
        return _line_start(file, end)


def _event_behind(file: BinaryIO, offset: int) -> tuple[int, Event | None]:
    """The first event that begins at an offset or behind it, and where it begins."""
    start = offset
    if offset:
        # From the byte before: if a line begins at the offset, only the newline before it is
        # skipped.
        file.seek(offset - 1)
        start += len(file.readline()) - 1
    file.seek(start)
    line = file.readline()
    if not line.endswith(b"\n"):
        return start, None
    time_ms, text = json.loads(line)
    return start, Event(time_ms, text, start + len(line))
