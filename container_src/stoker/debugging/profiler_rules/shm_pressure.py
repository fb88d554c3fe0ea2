"""Shared memory that is nearly used up."""

from __future__ import annotations

from typing import ClassVar

from stoker.bus.system_samples import SHM_UTILIZATION
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter


class ShmPressure(ProfilerRule):
    """The shared memory is nearly full: a loader worker will soon fail. An extension of Stoker.

    Fires when more than `threshold` percent of `/dev/shm` were used in a snapshot.

    What usually helps: fewer loader workers or a smaller prefetch_factor.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = "fewer loader workers or a smaller prefetch_factor"

    threshold: float = parameter(80, "percent of it", minimum=0, maximum=100)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {}
        worst: tuple[float, str] = (0.0, "")
        for node in profile.nodes:
            series = profile.one(node, SHM_UTILIZATION)
            if series is None:
                continue
            self.datapoints = max(self.datapoints, len(series))
            top = float(series.values.max())
            self.details[node] = {"max": top}
            self.violations += int((series.values > self.threshold).sum())
            worst = max(worst, (top, node))
        if not self.datapoints:
            self.lacking = "the shared memory was not measured"
        if worst[0] <= self.threshold:
            return None
        return Finding(
            message=f"{worst[0]:.0f} % of the shared memory of {worst[1]} were used (limit "
            f"{self.threshold:g} %)",
            values={"percent": worst[0], "threshold": self.threshold},
            hint=self.advice,
        )
