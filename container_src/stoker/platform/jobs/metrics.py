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

from stoker.platform.jobs.state import Metric

_SCAN = Path(__file__).with_name("metric_scan.py")
_CPU_SECONDS_PER_METRIC = 2.0
_CPU_SECONDS_PER_LINE = 20e-6  # a long log alone must not make a sound definition look hopeless
_WALL_SECONDS = 300.0
"""The last resort if the child cannot even be interrupted; far above what all metrics may take."""
_FOUND = 3
"""Parts of an answer that holds a value: the definition's number, milliseconds, the value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What was found in the log, and which definitions had to be given up."""

    metrics: tuple[Metric, ...]
    given_up: tuple[str, ...]
    """Names of metrics, in the order of their definitions."""


def scan_metrics(
    logs: Sequence[Path],
    definitions: Sequence[tuple[str, str]],
    *,
    cpu_seconds_per_metric: float = _CPU_SECONDS_PER_METRIC,
    wall_seconds: float = _WALL_SECONDS,
) -> Scan:
    """The last value of every metric.

    Args:
        logs: the files of all hosts' log streams.
        definitions: names and regular expressions; group 1 is the value.
        cpu_seconds_per_metric: processor time after which a definition is given up.
        wall_seconds: when the whole scan is ended, whatever it is doing.
    """
    if not definitions or not logs:
        return Scan(metrics=(), given_up=())
    work = {
        "files": [str(log) for log in logs],
        "regexes": [regex for _, regex in definitions],
        "cpu_seconds": cpu_seconds_per_metric,
        "cpu_seconds_per_line": _CPU_SECONDS_PER_LINE,
    }
    answers = _run_child(work, wall_seconds)
    found: dict[int, Metric] = {}
    given_up = {int(answer[0]) for answer in answers if len(answer) == 1}
    for number, moment, value in (answer for answer in answers if len(answer) == _FOUND):
        new = Metric(name=definitions[int(number)][0], value=value, timestamp=moment / 1000)
        found[int(number)] = _newer(found.get(int(number)), new)
    if [] not in answers:  # it did not come to its end
        given_up |= set(range(len(definitions))) - found.keys()
    names = [definitions[number][0] for number in sorted(given_up)]
    kept = [metric for number, metric in sorted(found.items()) if number not in given_up]
    return Scan(metrics=_one_per_name(kept), given_up=tuple(dict.fromkeys(names)))


def _one_per_name(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Several definitions may share a name (train and test print alike): the newest wins."""
    kept: dict[str, Metric] = {}
    for metric in metrics:
        kept[metric.name] = _newer(kept.get(metric.name), metric)
    return tuple(kept.values())


def _newer(old: Metric | None, new: Metric) -> Metric:
    return new if old is None or old.timestamp <= new.timestamp else old


def _run_child(work: dict[str, object], wall_seconds: float) -> list[list[float]]:
    """What `metric_scan` has said."""
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
