"""One rank that is slower than the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Profile, StepSeries
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

OWN_PARTS = ("data_wait", "transfer", "forward", "optimizer", "checkpoint", "logging")
"""What a rank does by itself. Gradients are exchanged in backward: there it waits for the others,
and all ranks take equally long for a step, whichever of them is slow."""


class SkewedRanks(ProfilerRule):
    """One rank is slower than the others, which wait for it. An extension of Stoker.

    Fires when the slowest rank takes more than `threshold` times as long as the fastest for a
    step: in whole, or with what it does by itself (all but backward, where ranks wait for each
    other) compared with the fastest's whole step.

    What usually helps: the same amount of data for each rank, and an equal machine.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = "the same amount of data and of other work for each rank"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    threshold: float = parameter(1.2, "slowest by fastest", minimum=1)
    patience: int = parameter(100, "steps that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        self.violations, self.details = 0, {}
        ranks = [one for one in profile.steps_of("TRAIN") if len(one) > 1]
        self.datapoints = min((one.steps for one in ranks), default=0)
        if len({(one.node, one.rank) for one in ranks}) < 2:
            self.lacking = "fewer than two ranks were measured: nothing to compare"
            return None
        whole = {one.name: float(np.median(one.each[1:])) for one in ranks}
        own = {one.name: float(np.median(own_seconds(one)[1:])) for one in ranks}
        self.details = {"step_seconds": whole, "own_seconds": own}
        slowest, ratio = find_slowest(whole, own)
        self.details |= {"slowest": slowest, "ratio": ratio}
        if self._wait_for(self.patience, what="steps") or ratio <= self.threshold:
            return None
        self.violations = 1
        return Finding(
            message=f"{slowest} takes {ratio:.2f} times as long for a step as the fastest rank "
            f"would (limit {self.threshold:g})",
            values={"ratio": ratio, "threshold": self.threshold},
            hint=self.advice,
        )


def own_seconds(one: StepSeries) -> Floats:
    """Seconds of each step that do not depend on other ranks."""
    seconds: Floats = sum((one.part(name) for name in OWN_PARTS), np.zeros(len(one))) / one.counts
    return seconds


def find_slowest(whole: Mapping[str, float], own: Mapping[str, float]) -> tuple[str, float]:
    """The slowest rank, and how many times as long as without its delay a step takes."""
    by_whole = max(whole, key=lambda name: whole[name])
    ratio = whole[by_whole] / max(min(whole.values()), 1e-9)
    by_own = max(own, key=lambda name: own[name])
    delay = own[by_own] - min(own.values())
    # What a step would take if this rank were as fast as the fastest.
    of_own = whole[by_own] / max(whole[by_own] - delay, 1e-9)
    return (by_whole, ratio) if ratio >= of_own else (by_own, of_own)
