"""The metrics of a job, from its stored log while it grows: by its expressions, and `job.log`'s.

The expressions are the user's: one that takes for ever is given up, in a child process that can
be interrupted (`metric_scan`). The log is the source: `MetricSeries` notes how far it was read,
so a killed server loses nothing.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from stoker.bus.metric_line import MARK, read_line, read_step
from stoker.platform.data.log_streams import (
    LogStreams,
    Stream,
    offset_before,
    read_events,
    size_of,
)
from stoker.platform.jobs.metric_files import MetricFiles
from stoker.platform.jobs.metric_scan import OWN_LINES
from stoker.platform.jobs.series import MetricSeries, Point
from stoker.platform.jobs.state import Metric

LOOK_SECONDS = 0.5
_BLOCK_BYTES = 1 << 20
_MARK = MARK.encode()
_MOST_METRICS = 40  # as FinalMetricDataList takes
_SCAN = Path(__file__).with_name("metric_scan.py")
_CPU_SECONDS_PER_METRIC = 2.0
_CPU_SECONDS_PER_LINE = 20e-6  # a long log alone must not make a good definition look hopeless
_WALL_SECONDS = 300.0
"""The last resort if the child cannot even be interrupted; far above what all metrics may take."""

_log = logging.getLogger(__name__)

Definition = tuple[str, str]
"""A metric's name and regular expression; group 1 is the value."""


class MetricReader:
    """Reads the log of one job for its metrics; the child lives as long as the reader."""

    def __init__(
        self,
        streams: LogStreams,
        series: MetricSeries,
        *,
        job: str,
        definitions: Sequence[Definition],
        cpu_seconds_per_metric: float = _CPU_SECONDS_PER_METRIC,
        wall_seconds: float = _WALL_SECONDS,
    ) -> None:
        """Args:
        streams: all logs.
        series: where the values go.
        job: whose log is read.
        definitions: what is looked for.
        cpu_seconds_per_metric: processor time after which a definition is given up.
        wall_seconds: when a scan is ended, whatever it is doing.
        """
        self._streams = streams
        self._series = series
        self._job = job
        self._definitions = definitions
        self._cpu_seconds = cpu_seconds_per_metric
        self._wall_seconds = wall_seconds
        self._child: subprocess.Popen[str] | None = None

    def read_new(self) -> None:
        """Read what the logs of all hosts hold since the last time."""
        for stream in self._streams.streams(self._job):
            start = self._series.offset(self._job, stream.host)
            while start < size_of(stream):
                start = self._read_block(stream, start)

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _read_block(self, stream: Stream, start: int) -> int:
        """One part of a log, kept in one transaction; returns where the next one begins."""
        raw = _read_lines(stream, start)
        end = start + len(raw)
        names = [name for name, _ in self._definitions]
        lost = self._series.given_up(self._job)
        wanted = [n for n, name in enumerate(names) if name not in lost]
        answers = self._ask([str(stream.file), start, end, wanted]) if wanted else [[None]]
        given_up = {names[int(a[0])] for a in answers if len(a) == 1 and a[0] is not None}
        if [None] not in answers:  # the child did not come to its end
            given_up |= {names[n] for n in wanted}
        points = [
            Point(name=names[int(a[0])], host=stream.host, time_ms=int(a[1]), value=a[2])
            for a in answers
            if len(a) == 3 and a[0] is not None and a[1] is not None and a[2] is not None
        ]
        points += [each for each in _read_logged(raw, stream.host) if each.name not in names]
        self._series.add(self._job, stream.host, points, offset=end, given_up=given_up)
        return end

    def _ask(self, question: list[object]) -> list[list[float | None]]:
        """What `metric_scan` answers; less than all if it had to be ended."""
        child = self._child or self._start()
        # Reading a pipe has no time limit of its own: the child's end closes it.
        timer = threading.Timer(self._wall_seconds, child.kill)
        timer.daemon = True
        timer.start()
        answers: list[list[float | None]] = []
        try:
            _write(child.stdin, question)
            for line in child.stdout or ():
                with suppress(ValueError):  # half a line, of a child that was ended
                    answers.append(json.loads(line))
                if answers and answers[-1][0] is None:
                    return answers
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        self.close()
        return answers

    def _start(self) -> subprocess.Popen[str]:
        self._child = subprocess.Popen(
            [sys.executable, "-IS", str(_SCAN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        work = {
            "regexes": [regex for _, regex in self._definitions],
            "cpu_seconds": self._cpu_seconds,
            "cpu_seconds_per_line": _CPU_SECONDS_PER_LINE,
        }
        _write(self._child.stdin, work)
        return self._child


def _read_lines(stream: Stream, start: int) -> bytes:
    """Whole lines from an offset on: as many as a block holds, but at least one."""
    with stream.file.open("rb") as file:
        file.seek(start)
        raw = file.read(_BLOCK_BYTES)
        if b"\n" not in raw:
            raw += file.readline()
    return raw[: raw.rfind(b"\n") + 1]


def _read_logged(raw: bytes, host: str) -> Iterable[Point]:
    """The metrics of `job.log` in a part of a log."""
    if _MARK not in raw:  # most parts need not be cut into lines
        return
    for line in raw.splitlines():
        if _MARK in line:
            moment, text = json.loads(line)
            step = read_step(text)
            for name, value in read_line(text).items():
                if math.isfinite(value) and not text.startswith(OWN_LINES):
                    yield Point(name=name, host=host, time_ms=moment, value=value, step=step)


def _write(pipe: IO[str] | None, value: object) -> None:
    if pipe is not None:
        pipe.write(json.dumps(value) + "\n")
        pipe.flush()


class MetricWatch(threading.Thread):
    """Reads new lines for metrics while a job runs."""

    def __init__(self, reader: MetricReader, files: MetricFiles, job: str) -> None:
        super().__init__(name=f"metrics-{job}", daemon=True)
        self._reader = reader
        self._files = files
        self._ended = threading.Event()

    def run(self) -> None:
        """Look again and again; what fails now is read at the next look or at the job's end."""
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self._reader.read_new()
                self._files.read_new()
            except (OSError, sqlite3.Error) as error:  # a full disk, most likely
                _log.warning("%s: %s", self.name, error)
        self._reader.close()

    def stop(self) -> None:
        """End the thread and its child."""
        self._ended.set()
        self.join()


def read_final(
    series: MetricSeries, job: str, definitions: Sequence[Definition]
) -> tuple[Metric, ...]:
    """FinalMetricDataList: the last values, of the definitions first, then of `job.log`."""
    last, lost = series.read_last(job), series.given_up(job)
    newest_first = sorted(last, key=lambda name: -last[name].time_ms)
    names = dict.fromkeys([*(name for name, _ in definitions if name in last), *newest_first])
    found = [(name, last[name]) for name in names if name not in lost]
    return tuple(
        Metric(name=name, value=point.value, timestamp=point.time_ms / 1000)
        for name, point in found[:_MOST_METRICS]
    )


_NEAR_BYTES = 1 << 20
_NEAR_LINES = 2
_NEAR_CHARACTERS = 160
_WORD = re.compile(r"[A-Za-z]{2,}")
_ESCAPE = re.compile(r"\\.")  # the letter of \d, \s, \w is not part of a word


def describe_problems(
    streams: LogStreams, series: MetricSeries, job: str, definitions: Sequence[Definition]
) -> list[str]:
    """One sentence for each metric without a value: why, and which lines nearly matched."""
    found, lost = series.read_last(job), series.given_up(job)
    texts = [
        f"metric {name!r} is given up: its regular expression takes too long; "
        "fix: avoid nested repetition such as (a+)+"
        for name, _ in definitions
        if name in lost
    ]
    missing = [d for d in definitions if d[0] not in found and d[0] not in lost]
    if missing:
        lines = list(dict.fromkeys(_read_ends(streams.streams(job))))
        texts += [_describe_missing(name, regex, lines) for name, regex in missing]
    return list(dict.fromkeys(texts))


def _describe_missing(name: str, regex: str, lines: Iterable[str]) -> str:
    near = find_near_lines(name, regex, lines)
    text = f"metric {name!r} has no value: no line of the log matches {regex!r}"
    if not near:
        return f"{text}, and none is like it; fix: print the metric, flushed, on a line of its own"
    quoted = "; ".join(repr(line[:_NEAR_CHARACTERS]) for line in near)
    return f"{text}; nearly: {quoted}; fix: test the expression on such a line"


def find_near_lines(name: str, regex: str, lines: Iterable[str]) -> list[str]:
    """The lines with a number that share most words with a metric's name and expression.

    Example:
        >>> find_near_lines("acc", "val_acc=([0-9.]+)", ["start", "val acc: 0.5", "loss 3"])
        ['val acc: 0.5']
    """
    text = f"{name} {_ESCAPE.sub(' ', regex)}"
    wanted = {word.lower() for word in _WORD.findall(text)}
    scored = []
    for place, line in enumerate(lines):
        shared = len(wanted & {word.lower() for word in _WORD.findall(line)})
        if shared and any(c.isdigit() for c in line):
            scored.append((-shared, place, line))
    best = min(scored)[0] if scored else 0
    return [line for score, _, line in sorted(scored) if score == best][:_NEAR_LINES]


def _read_ends(streams: Iterable[Stream]) -> Iterable[str]:
    """The last lines of every log: a log may be larger than the memory."""
    for stream in streams:
        begin = offset_before(
            stream, size_of(stream), events=_NEAR_BYTES, bytes_at_most=_NEAR_BYTES
        )
        for event in read_events(stream, begin):
            if not event.text.startswith("[stoker]"):
                yield event.text
