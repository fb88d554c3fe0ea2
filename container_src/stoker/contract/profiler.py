"""What is profiled: profilerconfig.json, as SageMaker's estimators write it; STOKER_PROFILE."""

from __future__ import annotations

import os

from stoker.contract.debugger import profiler_dir
from stoker.contract.files import read_object, read_regular
from stoker.contract.quick_json import loads
from stoker.contract.record import Record
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from stoker.contract.job import Job
    from stoker.contract.paths import Paths

VARIABLE = "STOKER_PROFILE"
"""`auto` profiles hardware and steps; `off` nothing, whatever profilerconfig.json says; and
`steps=10-13` records operators of these steps (profiling.window)."""

INTERVALS = (100, 60_000)
"""Milliseconds between two samples, at least and at most."""

PYTHON_PROFILERS = ("cprofile", "pyinstrument")
TIMERS = ("total_time", "cpu_time", "off_cpu_time", "default")

_OVERRIDE = "SMPROFILER_CONFIG_PATH"


class StepRange(Record):
    """The steps, or the time, in which something is recorded."""

    first: int | None = None
    last: int | None = None
    start: float | None = None
    """Unix time, if a time and no steps are asked for."""
    end: float | None = None

    def has(self, step: int, now: float) -> bool:
        """Whether a step that begins now is one of them."""
        if self.start is not None and self.end is not None:
            return self.start <= now < self.end
        return self.first is not None and self.last is not None and self.first <= step <= self.last

    def is_over(self, step: int, now: float) -> bool:
        """Whether neither this step nor a later one is one of them."""
        if self.end is not None:
            return now >= self.end
        return self.last is None or step > self.last


class ProfilerSettings(Record):
    """What is to be measured, and where it is written."""

    folder: str
    samples: bool = False
    """Whether the hardware is sampled."""
    steps: bool = False
    """Whether the steps of training are recorded."""
    interval_milliseconds: int = 500
    rotate_bytes: int = 10 * 1024 * 1024
    rotate_seconds: float = 60.0
    open_failures: int = 50
    """After so many timeline files that cannot be written no more is tried."""
    detailed: StepRange | None = None
    dataloader: StepRange | None = None
    dataloader_regex: str = ".*"
    python: StepRange | None = None
    python_profiler: str = "cprofile"
    python_timer: str = "default"
    complaints: tuple[str, ...] = ()


def config_file(paths: Paths, environ: Mapping[str, str]) -> str:
    return environ.get(_OVERRIDE) or paths.config_file("profilerconfig.json")


def is_asked_for(environ: Mapping[str, str], paths: Paths) -> bool:
    """Whether any profile may be wanted: without reading anything."""
    return bool(environ.get(VARIABLE)) or os.path.exists(config_file(paths, environ))


def read_profiler_settings(job: Job) -> ProfilerSettings:
    """From the job as it was read at its start."""
    return make_settings(job.services.profiler, job.paths, job.environ)


def read_profiler_settings_again(paths: Paths, environ: Mapping[str, str]) -> ProfilerSettings:
    """From the file as it is now: UpdateTrainingJob changes it while a job runs."""
    try:
        config = read_object(config_file(paths, environ))
    except ConfigInvalid as error:
        return ProfilerSettings(folder=profiler_dir(paths, {}), complaints=(error.message,))
    return make_settings(config, paths, environ)


def make_settings(
    config: Mapping[str, Any], paths: Paths, environ: Mapping[str, str]
) -> ProfilerSettings:
    """A value that cannot be used becomes a complaint, and the default is used."""
    # As smdebug: keys in any case. Values keep theirs, or a LocalPath with capitals would be lost.
    lower = {str(key).lower(): value for key, value in config.items()}
    words = environ.get(VARIABLE, "").lower().replace(",", " ").replace(";", " ").split()
    is_disabled = str(lower.get("disableprofiler", False)).lower() == "true"
    is_configured = bool(config) and not is_disabled
    is_off = "off" in words
    parameters = lower.get("profilingparameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    reader = _Reader(parameters)
    # As in the service: without ProfilingParameters only the hardware is sampled. The profiler's
    # rules read steps, so a job that has some records them.
    wants_steps = bool(parameters) or (is_configured and _has_rules(paths))
    interval = reader.whole(
        "ProfilingIntervalInMilliseconds", 500, lower.get("profilingintervalinmilliseconds")
    )
    return ProfilerSettings(
        folder=profiler_dir(
            paths, {"ProfilingParameters": {"LocalPath": reader.get("LocalPath")}}
        ),
        samples=not is_off and (is_configured or "auto" in words),
        steps=not is_off and ("auto" in words or (is_configured and wants_steps)),
        interval_milliseconds=min(max(interval, INTERVALS[0]), INTERVALS[1]),
        rotate_bytes=max(1024, reader.whole("RotateMaxFileSizeInBytes", 10 * 1024 * 1024)),
        rotate_seconds=max(1, reader.whole("RotateFileCloseIntervalInSeconds", 60)),
        open_failures=reader.whole("FileOpenFailThreshold", 50),
        detailed=reader.range("DetailedProfilingConfig"),
        dataloader=reader.range("DataloaderProfilingConfig"),
        dataloader_regex=reader.word("DataloaderProfilingConfig", "MetricsRegex", ".*"),
        python=reader.range("PythonProfilingConfig"),
        python_profiler=reader.choice("ProfilerName", PYTHON_PROFILERS, "cprofile"),
        python_timer=reader.choice("cProfileTimer", TIMERS, "default"),
        complaints=tuple(reader.complaints),
    )


def _has_rules(paths: Paths) -> bool:
    """Whether the job has profiler rules, where the platform tells: they need steps."""
    try:
        text = read_regular(paths.config_file("trainingjobconfig.json"))
        return b'"ProfilerRuleConfigurations"' in text and bool(
            loads(text.decode()).get("ProfilerRuleConfigurations")
        )
    except (OSError, ValueError, RecursionError, AttributeError):
        return False


class _Reader:
    """ProfilingParameters: texts, some of which hold JSON; names in any case."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = {str(key).lower(): value for key, value in parameters.items()}
        self.complaints: list[str] = []

    def get(self, name: str) -> object:
        return self._parameters.get(name.lower())

    def whole(self, name: str, default: int, given: object = None) -> int:
        value = self.get(name) if given is None else given
        if value is None:
            return default
        try:
            # The API's map is of texts, and "5e2" is a number, too.
            return int(float(str(value)))
        except (ValueError, OverflowError):
            self.complaints.append(f"{name} is {value!r:.80}, but a number was expected")
            return default

    def word(self, config: str, name: str, default: str) -> str:
        return str(self._object(config).get(name.lower(), default))

    def choice(self, name: str, among: tuple[str, ...], default: str) -> str:
        value = self.word("PythonProfilingConfig", name, default).lower()
        if value in among:
            return value
        self.complaints.append(f"{name} is {value!r:.80}, but must be one of {', '.join(among)}")
        return default

    def range(self, config: str) -> StepRange | None:
        """None without such a config, or with one that says nothing usable."""
        if not self.get(config):
            return None
        asked = self._object(config, complain=True)
        try:
            first = _number(asked, "startstep")
            count = _number(asked, "numsteps")
            start = _number(asked, "starttimeinsecsinceepoch")
            seconds = _number(asked, "durationinseconds", "duration")
        except ValueError as error:
            self.complaints.append(f"{config}: {error}")
            return None
        has_steps, has_time = (first, count) != (None, None), (start, seconds) != (None, None)
        if has_steps and has_time:
            self.complaints.append(f"{config} names both steps and a time: it is not used")
            return None
        if has_time:
            begin = start or 0.0
            return StepRange(start=begin, end=begin + seconds if seconds else float("inf"))
        begin_step = int(first or 0)
        last = begin_step + int(count if count is not None else 1) - 1
        return StepRange(first=begin_step, last=last) if asked else None

    def _object(self, config: str, *, complain: bool = False) -> dict[str, Any]:
        value = self.get(config)
        try:
            read = _load_object(value) if isinstance(value, str) and value else value or {}
            if isinstance(read, dict):
                return {str(key).lower(): entry for key, entry in read.items()}
        except (ValueError, RecursionError):
            read = value
        if complain:
            self.complaints.append(f"{config} is {read!r:.80}, but a JSON object was expected")
        return {}


def _load_object(text: str) -> Any:  # noqa: ANN401 - JSON
    # The SDK's FrameworkProfile ends its objects with `, }`, as smdebug reads them as Python.
    body = text.strip()
    if body.endswith("}"):
        body = body[:-1].rstrip().removesuffix(",") + "}"
    return loads(body)


def _number(asked: Mapping[str, Any], *names: str) -> float | None:
    value = next((asked[name] for name in names if asked.get(name) is not None), None)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{names[0]} is {value!r:.80}, but a number was expected") from None
