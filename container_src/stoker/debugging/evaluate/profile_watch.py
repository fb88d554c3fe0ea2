"""The rules of the profiler at work: when they look, and the files they leave."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.bus.stop import PLATFORM_VARIABLE
from stoker.contract.files import read_object, write_atomically
from stoker.contract.job import Job
from stoker.debugging.evaluate.watched import Fired, WatchedRule
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.reading import ProfileReader
from stoker.debugging.specs import RuleSpec, read_specs
from stoker.errors import StokerError

REPORTS = ("profiler-output", "profiler-reports")
"""Below the folder of a rule, as in the service."""

_REQUEST = "trainingjobconfig.json"


class ProfileWatch:
    """Has each rule of the profiler look as often as it wants."""

    def __init__(
        self,
        rules: Sequence[WatchedRule],
        *,
        folder: str,
        output: str,
        say: Callable[[str, str], None],
    ) -> None:
        """
        Args:
            rules: all rules of the job; those that look at tensors are left alone.
            folder: the profiler's.
            output: where each rule gets a folder of its own name for its JSON files.
            say: gets the topic and the text of a warning.
        """
        self._rules: list[WatchedRule] = []
        self._reader = ProfileReader(folder)
        self._output = output
        self._say = say
        self._due: dict[str, float] = {}
        for rule in rules:
            self.add(rule)

    def add(self, rule: WatchedRule) -> None:
        """One more rule; nothing happens if it is not of the profiler."""
        if rule.scan_seconds is not None:
            self._rules.append(rule)
            self._due[rule.status.name] = time.monotonic() + rule.scan_seconds

    def look(self, *, step: int, is_last: bool = False) -> Iterator[Fired]:
        """Asks the rules whose time has come; all of them at the end.

        Args:
            step: the newest one that is known.
            is_last: nothing more will be measured.
        """
        now = time.monotonic()
        chosen = [
            rule
            for rule in self._rules
            if not rule.is_over and (is_last or self._due[rule.status.name] <= now)
        ]
        if not chosen:
            return
        profile = self._reader.read()
        newest = max((int(s.numbers[-1]) for s in profile.steps_of("TRAIN")), default=step)
        for rule in chosen:
            fired = rule.evaluate_profile(profile, step=newest, is_last=is_last)
            self._write(rule)
            self._due[rule.status.name] = time.monotonic() + (rule.scan_seconds or math.inf)
            if fired is not None:
                yield fired

    def _write(self, rule: WatchedRule) -> None:
        folder = Path(self._output, rule.status.name, *REPORTS)
        try:
            write_reports(folder, rule.profiler_reports)
        except OSError as error:
            self._say("reports", f"{folder} cannot be written: {error.strerror}")


class AddedRules:
    """Rules that UpdateTrainingJob has added: the platform then writes the request again."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._file = job.paths.config_file(_REQUEST)
        # Not the version of now: the request may have changed before this process had started.
        self._seen: tuple[int, int] | None = None

    def look(self) -> list[RuleSpec]:
        """All rules of the profiler, if the request has changed since the last look."""
        version = self._find_version()
        if version == self._seen:
            return []
        self._seen = version
        return read_requested_rules(self._job)

    def _find_version(self) -> tuple[int, int]:
        try:
            found = os.stat(self._file)
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_ino)


def read_requested_rules(job: Job) -> list[RuleSpec]:
    """The rules of the profiler in the request as it is now; none elsewhere than here.

    On SageMaker the service itself evaluates those of its own request.
    """
    if PLATFORM_VARIABLE not in job.environ:
        return []
    try:
        request = read_object(job.paths.config_file(_REQUEST))
        return read_specs(json.dumps(request.get("ProfilerRuleConfigurations") or []))
    except StokerError:  # half written: it changes once more
        return []


def write_reports(folder: Path, reports: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes `<Rule>.json` for each.

    Raises:
        OSError: one cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    for name, report in reports.items():
        text = json.dumps(_finite(report), default=float)
        write_atomically(str(folder / f"{name}.json"), text)


def scan_all(
    rule: Any,  # noqa: ANN401 - a rule of the profiler
    profile: Profile,
    *,
    most_looks: int = 60,
) -> None:
    """Has a rule look at a run that is over as if it were growing."""
    first, last = profile.first, profile.last
    if first is not None and last is not None:
        interval = max(rule.scan_interval_us / 1e6, (last - first) / most_looks)
        for number in range(1, math.ceil((last - first) / interval)):
            rule.scan(profile.until(first + number * interval))
    rule.scan(profile, is_last=True)


def _finite(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON has no NaN and no infinity."""
    if isinstance(value, Mapping):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
