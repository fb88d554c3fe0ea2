"""Metrics that a script writes to files: `$SAGEMAKER_METRICS_DIRECTORY/<pid>.json`.

smexperiments' tracker writes them, one JSON object a line; in the service an agent sends them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

from stoker.bus.run_file import METRICS_FOLDER
from stoker.platform.data.confined import Parts, open_file, open_folder
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.series import Point
from stoker.platform.model.request import TrainingRequest

_FOLDER: Parts = tuple(METRICS_FOLDER.split("/"))
_BLOCK_BYTES = 1 << 20
_MOST_FILES = 1000
_STEPS = range(1 << 31)


class MetricFiles:
    """Reads the files of one attempt of a job; how far is noted where the values go."""

    def __init__(self, context: JobContext, request: TrainingRequest, attempt: int) -> None:
        self._series = context.series
        self._job = request.name
        self._attempt = attempt
        self._hosts = {host: context.root.host_dir(request.name, host) for host in request.hosts}

    def read_new(self) -> None:
        """Read whole lines that came since the last time."""
        for host, folder in self._hosts.items():
            for name in _list_names(folder):
                # Each attempt begins with an empty folder, and may use the same process ids.
                log = f"{host}/{self._attempt}/{name}"
                while self._read_block(host, folder, name, log):
                    pass

    def _read_block(self, host: str, folder: Path, name: str, log: str) -> bool:
        start = self._series.offset(self._job, log)
        try:
            with open_file(folder, (*_FOLDER, name)) as file:
                file.seek(start)
                raw = file.read(_BLOCK_BYTES)
        except OSError:
            return False
        raw = raw[: raw.rfind(b"\n") + 1]
        if raw:
            points = list(_parse_lines(raw, host))
            self._series.add(self._job, log, points, offset=start + len(raw))
        return bool(raw)


def _list_names(folder: Path) -> list[str]:
    try:
        with open_folder(folder, _FOLDER) as opened:
            names = sorted(name for name in os.listdir(opened) if name.endswith(".json"))
    except OSError:
        return []
    return names[:_MOST_FILES]


def _parse_lines(raw: bytes, host: str) -> Iterator[Point]:
    for line in raw.splitlines():
        try:
            entry = json.loads(line)
            name, value = str(entry["MetricName"]), float(entry["Value"])
            time_ms = round(float(entry["Timestamp"]) * 1000)
            step = entry.get("IterationNumber", entry.get("Step"))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError):
            continue  # not one of the tracker's lines
        if math.isfinite(value) and name and abs(time_ms) < 1 << 53:
            known = step if type(step) is int and step in _STEPS else None
            yield Point(name=name, host=host, time_ms=time_ms, value=value, step=known)
