"""Steps that wait for data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter


class SlowDataLoader(ProfilerRule):
    """The training waits for its data. An extension of Stoker.

    Fires when that takes more than `threshold` percent of the time of the training steps of a
    process; the first batch of each epoch does not count.

    What usually helps: a loader worker per free core, prefetching, less work per sample, data on a
    local disk.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "a loader worker for each free core, prefetching, or less work for each sample"
    )
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    threshold: float = parameter(30, "percent of the time of a step", minimum=0, maximum=100)
    patience: int = parameter(100, "steps that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {}
        worst: tuple[float, str] = (0.0, "")
        for every in profile.steps_of("TRAIN"):
            one = every.take(~every.first_of_epoch)
            if "data_wait" not in one.parts or not len(one):
                continue
            self.datapoints = max(self.datapoints, one.steps)
            if one.steps <= self.patience:
                continue
            share = 100 * float(one.part("data_wait").sum() / max(one.seconds.sum(), 1e-9))
            self.details[one.name] = {"percent": share, "steps": one.steps}
            self.violations += share > self.threshold
            worst = max(worst, (share, one.name))
        if not self.datapoints:
            self.lacking = "no step was measured"
            return None
        if self._wait_for(self.patience, what="steps") or worst[0] <= self.threshold:
            return None
        return Finding(
            message=f"{worst[1]} waits for data in {worst[0]:.0f} % of the time of its steps "
            f"(limit {self.threshold:g} %)",
            values={"percent": worst[0], "threshold": self.threshold},
            hint=self.advice,
        )
