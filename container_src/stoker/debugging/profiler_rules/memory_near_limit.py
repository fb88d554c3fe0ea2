"""Memory that is nearly used up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.debugging.profiler_rules.cpu_memory_increase import memory_percent
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter


class MemoryNearLimit(ProfilerRule):
    """The memory of the container is nearly used up: it will be killed. An extension of Stoker.

    Fires when more than `threshold` percent of it were used in a snapshot.

    What usually helps: fewer loader workers, less prefetching, a smaller batch, a larger instance.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = "fewer loader workers, less prefetching, or a larger instance"
    quick: ClassVar[Mapping[str, str]] = {}

    threshold: float = parameter(90, "percent of the memory", minimum=0, maximum=100)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {}
        worst: tuple[float, str] = (0.0, "")
        for node in profile.nodes:
            series = memory_percent(profile, node)
            if series is None:
                continue
            self.datapoints = max(self.datapoints, len(series))
            top = float(series.values.max())
            self.details[node] = {"max": top, "last": float(series.values[-1])}
            self.violations += int((series.values > self.threshold).sum())
            worst = max(worst, (top, node))
        if not self.datapoints:
            self.lacking = "no memory was measured"
        if worst[0] <= self.threshold:
            return None
        return Finding(
            message=f"{worst[0]:.0f} % of the memory of {worst[1]} were used (limit "
            f"{self.threshold:g} %): the container is killed at 100 %",
            values={"percent": worst[0], "threshold": self.threshold},
            hint=self.advice,
        )
