"""The metrics of a job: a pure function of its stored log, made when the job has ended.

The regular expressions are the user's: one that takes for ever is given up, in a child process
that can be interrupted (`metric_scan`). Nothing is kept in memory between lines, so a kill -9 of
the server loses nothing: the next one scans again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.host.platform.jobs.state import Metric

_SCAN = Path(__file__).with_name("metric_scan.py")
_CPU_SECONDS_PER_METRIC = 2.0
_CPU_SECONDS_PER_LINE = 20e-6  # a long log alone must not make a sound definition look hopeless
_WALL_SECONDS = 300.0
"""The last resort if the child cannot even be interrupted; far above what all metrics may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What was found in the log, and which definitions had to be given up."""

    metrics: tuple[Metric, ...]
    given_up: tuple[str, ...]
    """Names of metrics, in the order of their definitions."""


def scan_metrics(
    events: Sequence[tuple[int, str]],
    definitions: Sequence[tuple[str, str]],
    *,
    cpu_seconds_per_metric: float = _CPU_SECONDS_PER_METRIC,
    wall_seconds: float = _WALL_SECONDS,
) -> Scan:
    """The last value of every metric.

    Args:
        events: time in milliseconds and text of every log line, in any order of hosts.
        definitions: names and regular expressions; group 1 is the value.
        cpu_seconds_per_metric: processor time after which a definition is given up.
        wall_seconds: when the whole scan is ended, whatever it is doing.
    """
    if not definitions or not events:
        return Scan(metrics=(), given_up=())
    ordered = sorted(events, key=lambda event: event[0])
    cpu_seconds = cpu_seconds_per_metric + _CPU_SECONDS_PER_LINE * len(ordered)
    work = {"events": ordered, "definitions": definitions, "cpu_seconds": cpu_seconds}
    answers = _run_child(work, wall_seconds)
    found: dict[str, Metric] = {}
    for (name, _), answer in zip(definitions, answers, strict=False):
        if answer is None or answer == []:
            continue
        new = Metric(name=name, value=answer[1], timestamp=answer[0] / 1000)
        # Several definitions may share a name (train and test print alike): the newest wins.
        if name not in found or found[name].timestamp <= new.timestamp:
            found[name] = new
    silent = [None] * (len(definitions) - len(answers))
    given_up = [
        name
        for (name, _), answer in zip(definitions, [*answers, *silent], strict=True)
        if answer is None
    ]
    return Scan(metrics=tuple(found.values()), given_up=tuple(dict.fromkeys(given_up)))


def _run_child(work: dict[str, object], wall_seconds: float) -> list[list[float] | None]:
    """One answer per definition, in order: [milliseconds, value], [] for none, None: given up."""
    try:
        ended = subprocess.run(
            [sys.executable, "-IS", str(_SCAN)],
            input=json.dumps(work),
            capture_output=True,
            text=True,
            timeout=wall_seconds,
            check=False,
        )
        output = ended.stdout
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode()
    complete = output[: output.rfind("\n") + 1]
    return [json.loads(line) for line in complete.splitlines()]
