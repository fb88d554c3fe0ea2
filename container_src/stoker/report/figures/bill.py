"""The bill: each second of a job under one heading, in percent and dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stoker.cost.bill import find_machines
from stoker.debugging.profiler_rules.profile import Profile, StepSeries
from stoker.report.figures.run import Run

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

HEADINGS = {
    "start": "machines and container start",
    "download": "download of data and code",
    "install": "installation of packages",
    "script": "the script before its first step",
    "data": "waiting for data",
    "transfer": "copies to the device",
    "compute": "compute: forward, backward, optimizer",
    "checkpoint": "checkpoints",
    "logging": "logging",
    "evaluation": "evaluation",
    "other": "other work inside steps",
    "idle": "between and after the steps",
    "finish": "end of the processes and the container",
    "upload": "upload of model and output",
}
"""In the order of a job's life."""

USEFUL = ("compute", "evaluation")
STEPS = ("data", "transfer", "compute", "checkpoint", "logging", "other")
TRAINING = (*STEPS, "evaluation", "idle")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """Headings and their seconds; they add up to the job's whole time."""

    seconds: dict[str, float]
    total_seconds: float
    usd_per_hour: float | None = None
    price_source: str = ""
    unknown: dict[str, str] = field(default_factory=dict)
    """Heading → why there is no figure."""

    def share(self, heading: str) -> float:
        """Of the whole, 0 to 1."""
        return self.seconds.get(heading, 0.0) / self.total_seconds if self.total_seconds else 0.0

    @property
    def training_seconds(self) -> float:
        """From the first step to the end of the script."""
        return sum(self.seconds.get(name, 0.0) for name in TRAINING)

    @property
    def step_seconds(self) -> float:
        """In the steps of the training, without evaluation and pauses."""
        return sum(self.seconds.get(name, 0.0) for name in STEPS)

    def usd(self, seconds: float) -> float | None:
        """Dollars for seconds of all machines."""
        return None if self.usd_per_hour is None else self.usd_per_hour / 3600 * seconds


def make_bill(run: Run) -> Bill:
    """Adds up a run. What is not measured is not guessed, but named."""
    seconds = dict.fromkeys(HEADINGS, 0.0)
    unknown: dict[str, str] = {}
    _add_stages(run, seconds, unknown)
    _add_phases(run, seconds, unknown)
    rate, source = find_rate(run)
    known = {name: max(0.0, value) for name, value in seconds.items()}
    return Bill(
        seconds=known,
        total_seconds=sum(known.values()),
        usd_per_hour=rate,
        price_source=source,
        unknown=unknown,
    )


def find_rate(run: Run) -> tuple[float | None, str]:
    """Dollars an hour for all machines, and where the price is from, or why there is none."""
    if not run.instances:
        return None, "the instance type is not known, so there are no dollars"
    # Inside a container the region may not be known; the page says whose prices these are.
    region = run.region or "us-east-1"
    machines = find_machines(run.instances, region)
    if machines.missing:
        missing = ", ".join(machines.missing)
        return None, f"no price of {missing} in {region} is known: stoker prices update"
    sources = "; ".join(price.show_source() for price in machines.prices.values())
    return machines.usd_per_hour, sources


def _add_stages(run: Run, seconds: dict[str, float], unknown: dict[str, str]) -> None:
    """What the platform does outside the container."""
    if not run.stages:
        why = "not seen from inside the container; stoker report JOB adds it"
        unknown["upload"] = why
        return
    headings = {"Starting": "start", "Pending": "start", "LaunchingMLInstances": "start"}
    headings |= {"PreparingTrainingStack": "start", "Downloading": "download"}
    headings |= {"Uploading": "upload", "DownloadingTrainingImage": "start"}
    for stage in run.stages:
        heading = headings.get(stage.name)
        if heading:
            seconds[heading] += max(0.0, stage.end - stage.start)


def _add_phases(run: Run, seconds: dict[str, float], unknown: dict[str, str]) -> None:
    profile = run.profile
    hosts = max(1, len({phase.host for phase in profile.phases}))
    headings = {"start": "start", "rules": "start", "download": "download", "install": "install"}
    for phase in profile.phases:
        heading = headings.get(phase.phase, "finish" if phase.phase == "finish" else "")
        if heading:
            # All hosts do it at the same time: the job waited for their mean, not for their sum.
            seconds[heading] += (phase.end - phase.start) / hosts
    bounds = training_bounds(profile)
    if bounds is None:
        unknown["compute"] = "nothing of the training was measured"
        return
    if not any(len(one) for one in profile.steps):
        unknown["compute"] = (
            "no step was measured: the script trains no torch.nn model, or did not get to a step"
        )
        seconds["script"] += bounds[1] - bounds[0]
        return
    for name, value in split_training(profile, bounds).items():
        seconds[name] += value


def training_bounds(profile: Profile) -> tuple[float, float] | None:
    """When the script began and ended: the mean over the hosts, else the first and last sign."""
    spans = [(phase.start, phase.end) for phase in profile.phases if phase.phase == "training"]
    if spans:
        return (
            sum(start for start, _ in spans) / len(spans),
            sum(end for _, end in spans) / len(spans),
        )
    first, last = profile.first, profile.last
    return None if first is None or last is None else (first, last)


def split_training(profile: Profile, bounds: tuple[float, float]) -> dict[str, float]:
    """The time of the script under its headings, in the mean over the ranks.

    Of what one rank does while the others wait for it, all its time counts.
    """
    ranks: dict[tuple[str, int], list[StepSeries]] = {}
    for one in profile.steps:
        if len(one):
            ranks.setdefault((one.node, one.rank), []).append(one)
    # Of several processes of a rank the one that started last has the end.
    tails = {(facts.host, facts.rank): facts.tail for facts in profile.facts}
    split = [_split_rank(series, bounds, tails.get(rank, {})) for rank, series in ranks.items()]
    names = split[0].keys()
    means = {name: float(np.mean([one[name] for one in split])) for name in names}
    _count_waiting(split, means)
    return means


_ALONE = ("checkpoint", "evaluation", "logging")
"""What often one rank does alone."""
_WAITING = ("compute", "other", "idle", "finish")
"""Where the others wait for it: in backward, where gradients are exchanged, at a barrier, or when
they have ended."""


def _count_waiting(split: Sequence[Mapping[str, float]], means: dict[str, float]) -> None:
    """What one rank does alone costs the job all of its time: the others wait meanwhile."""
    for name in _ALONE:
        for place in _WAITING:
            alone = max(one[name] for one in split) - means[name]
            # The rank that waits least shows how much of it is not waiting.
            waiting = means[place] - min(one[place] for one in split)
            moved = max(0.0, min(alone, waiting))
            means[name] += moved
            means[place] -= moved


_PARTS = {
    "data": ("data_wait",),
    "transfer": ("transfer",),
    "compute": ("forward", "backward", "optimizer"),
    "checkpoint": ("checkpoint",),
    "logging": ("logging",),
}
"""Heading → the parts of a training step that belong to it."""


_PAUSE_SECONDS = 0.5
_PAUSE_STEPS = 10
"""Other work of a step that takes as long as so many steps is a pause between two of them."""


def find_pauses(one: StepSeries) -> Floats:
    """Seconds in each step that passed between it and the next, as between two epochs."""
    rest = np.maximum(0.0, one.other)
    least = max(_PAUSE_SECONDS, _PAUSE_STEPS * float(np.median(one.each))) if len(one) else 0.0
    # Of several steps in one entry it is not known how it was spread over them.
    return np.where((one.counts == 1) & (rest > least), rest, 0.0)


def _split_rank(
    series: Sequence[StepSeries], bounds: tuple[float, float], tail: Mapping[str, float]
) -> dict[str, float]:
    """Args: tail: what has been since the last step, if the process has ended by itself."""
    start, end = bounds
    first = min(float(one.starts[0]) for one in series)
    found = dict.fromkeys((*_PARTS, "evaluation", "other"), 0.0)
    for one in series:
        total = float(one.seconds.sum()) - float(find_pauses(one).sum())
        sums = {h: sum(float(one.part(n).sum()) for n in names) for h, names in _PARTS.items()}
        if one.mode == "EVAL":
            found["checkpoint"] += sums["checkpoint"]
            found["evaluation"] += total - sums["checkpoint"]
            continue
        for heading, value in sums.items():
            found[heading] += value
        found["other"] += max(0.0, total - sum(sums.values()))
    # Python takes seconds to end after the script: nothing that the script could do better.
    last = max(float(one.ends[-1]) for one in series) + tail.get("total", 0.0) if tail else end
    for heading, names in _PARTS.items():
        found[heading] += sum(tail.get(name, 0.0) for name in names)
    found["idle"] = max(0.0, last - first - sum(found.values()))
    found["script"] = max(0.0, first - start)
    found["finish"] = max(0.0, end - last)
    return found
