"""Everything that is known of a run, from whichever files there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.bus.rule_status import RuleStatus
from stoker.debugging.evaluate.profile_watch import scan_all
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_report import ProfilerReport
from stoker.debugging.profiler_rules.reading import ProfileReader
from stoker.errors import RuleInvalid

if TYPE_CHECKING:
    from stoker.debugging.report.curves import Curve

PROFILER_REPORT = "ProfilerReport"
"""The rule that the page belongs to, in the service's words."""

SHORT_JOB_SNAPSHOTS = 2000
"""Below so many the rules run with `preset="quick"`: the service's patience would say nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """What the platform did with the job: Starting, Downloading, Training, Uploading."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One job, or a folder with the profile of one."""

    title: str
    outcome: str = ""
    profile: Profile
    rules: ProfilerReport
    """All rules of the profiler, evaluated."""
    is_quick: bool = False
    """They ran with the settings for short jobs."""
    stages: Sequence[Stage] = ()
    """Empty where no platform tells them, as inside the container."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """Instance type → how many."""
    region: str = ""
    statuses: Sequence[RuleStatus] = ()
    findings: Sequence[Fired] = ()
    curves: Sequence[Curve] = ()
    metrics: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Name → Unix times and values."""
    traces: Sequence[Path] = ()
    """torch.profiler's, for operators and memory."""
    hosts: Sequence[str] = ()
    """Of the job; those without files are named as missing."""
    remarks: Sequence[str] = ()
    """What could not be read, and why."""

    @property
    def host_count(self) -> int:
        return max(1, sum(self.instances.values()) or len(self.profile.nodes))


def read_profile(folder: Path) -> tuple[Profile, list[str]]:
    """A profile, and what could not be read of it."""
    reader = ProfileReader(str(folder))
    profile = reader.read()
    damaged = [
        f"{Path(file).name} is damaged: what cannot be read of it was left out"
        for file in reader.damaged
    ]
    return profile, damaged


def evaluate_rules(
    profile: Profile,
    settings: Mapping[str, str] | None = None,
    remarks: list[str] | None = None,
) -> tuple[ProfilerReport, bool]:
    """All rules over a run that is over, and whether that was with the settings for short jobs.

    Args:
        profile: what was measured.
        settings: of the rule ProfilerReport.
        remarks: gets a line if they are not valid; the rules then have their defaults.
    """
    snapshots = max(
        (len(s) for of_node in profile.samples.values() for s in of_node.values()), default=0
    )
    is_quick = snapshots < SHORT_JOB_SNAPSHOTS
    rules = _make_rules(dict(settings or {}), is_quick, remarks)
    scan_all(rules, profile)
    return rules, is_quick


def _make_rules(
    settings: Mapping[str, str], is_quick: bool, remarks: list[str] | None
) -> ProfilerReport:
    try:
        return ProfilerReport(ProfilerReport.quicken(settings) if is_quick else settings)
    except RuleInvalid as error:
        if remarks is not None:
            remarks.append(f"The settings of {PROFILER_REPORT} are not valid: {error.message}")
        return _make_rules({}, is_quick, remarks)


def find_profile(folder: Path) -> Path | None:
    """The folder of a profile in or below a folder, as jobs and downloads have it."""
    places = ("", "profiler-output", "output/profiler", "profiler")
    for place in (folder / name for name in places):
        if any((place / part).is_dir() for part in ("system", "stoker/steps", "framework")):
            return place
    return None


def find_traces(*folders: Path) -> list[Path]:
    """torch.profiler's traces below some folders, each once."""
    found = {
        file
        for folder in folders
        for pattern in ("*.pt.trace.json*", "*trace.json.gz")
        for file in folder.rglob(pattern)
        if file.is_file() and not file.name.endswith(".sagemaker-ignore")
    }
    return sorted(found)
