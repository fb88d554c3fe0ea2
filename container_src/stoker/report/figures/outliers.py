"""The slowest steps, and what else happened then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stoker.bus.system_samples import CPU_THROTTLED, PRESSURE
from stoker.debugging.profiler_rules.profile import Profile, StepSeries
from stoker.report.figures.bill import find_pauses

MOST = 12
_FACTOR = 2.0
"""A step that takes so many times the median is worth an explanation."""

_REASONS = {
    "data_wait": "it waited for data",
    "checkpoint": "a checkpoint was written",
    "logging": "it logged",
    "transfer": "its batch was copied to the device",
    "forward": "its forward pass took longer",
    "backward": "its backward pass took longer",
    "optimizer": "its optimizer step took longer",
    "other": "the loop did other work",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlier:
    """One slow step."""

    series: StepSeries
    place: int
    seconds: float
    usual_seconds: float
    reason: str
    part: str
    """Which part took most of the additional time; empty for what is in none."""

    @property
    def number(self) -> int:
        return int(self.series.numbers[self.place])

    @property
    def lost_seconds(self) -> float:
        return self.seconds - self.usual_seconds


def find_outliers(profile: Profile, *, most: int = MOST) -> list[Outlier]:
    """The slowest steps of all processes, the most expensive first."""
    found: list[tuple[float, StepSeries, int, float]] = []
    for one in profile.steps:
        if len(one) < 3:
            continue
        usual = float(np.median(one.each))
        # Of tiny steps twice the median is noise: a millisecond more is not.
        late = np.flatnonzero((one.longest > _FACTOR * usual) & (one.longest - usual > 0.001))
        worst = late[np.argsort(one.longest[late])[::-1][:most]]
        found += [(float(one.longest[p]) - usual, one, int(p), usual) for p in worst]
    found.sort(key=lambda each: -each[0])
    return [_explain(profile, one, place, usual) for _, one, place, usual in found[:most]]


def _explain(profile: Profile, one: StepSeries, place: int, usual: float) -> Outlier:
    count = float(one.counts[place])
    more = {
        name: float(seconds[place]) / count - float(np.median(seconds / one.counts))
        for name, seconds in {**one.parts, "other": one.other}.items()
    }
    seconds = float(one.longest[place])
    extra = seconds - usual
    part = max(more, key=lambda name: more[name], default="")
    if not part or more[part] < 0.3 * extra:
        part = ""
    reason = _REASONS.get(part, "the time is in none of its parts")
    if one.mode == "TRAIN" and place == 0:
        reason = "the first step: memory is allocated, caches are empty, kernels are chosen"
    elif part == "data_wait" and one.first_of_epoch[place]:
        reason = "the first batch of an epoch: the loader's workers start"
    elif part == "other" and find_pauses(one)[place]:
        reason = "a pause before or after it, as between two epochs"
    reason += _machine(profile, one, place)
    return Outlier(
        series=one, place=place, seconds=seconds, usual_seconds=usual, reason=reason, part=part
    )


def _machine(profile: Profile, one: StepSeries, place: int) -> str:
    """What the machine did meanwhile, if that was unusual."""
    start, end = float(one.starts[place]) - 0.5, float(one.ends[place]) + 0.5
    said = []
    names = {"io some": "processes waited for the disk", "memory some": "memory was short"}
    for name, text in names.items():
        series = profile.samples.get(one.node, {}).get((PRESSURE, name))
        if series is not None:
            inside = series.between(start, end)
            if len(inside) and inside.values.max() > 20 > 2 * float(np.median(series.values)):
                said.append(f"{text} ({inside.values.max():.0f} % of the time)")
    throttled = profile.one(one.node, CPU_THROTTLED)
    if throttled is not None:
        inside = throttled.between(start, end)
        if len(inside) and inside.values.max() > 20:
            said.append("the CPU quota was used up")
    return f"; {', '.join(said)}" if said else ""
