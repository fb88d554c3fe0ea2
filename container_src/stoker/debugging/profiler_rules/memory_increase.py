"""Memory that grows: of GPUs as the service sees it, and of the host as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.debugging.profiler_rules.profile import Profile, Series
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule, make_box, percentile
from stoker.debugging.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable


class MemoryIncrease(ProfilerRule):
    """The base of GPUMemoryIncrease and CPUMemoryIncrease."""

    increase: float
    patience: int
    window: int

    def watched(self, profile: Profile, node: str) -> Iterable[tuple[str, Series]]:
        """The memories of a node."""
        raise NotImplementedError

    def nothing(self) -> str:
        """What to say where there are none."""
        raise NotImplementedError

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.details = 0, {}
        worst: tuple[float, str, Series] | None = None
        self.violations = 0
        is_measured = False
        for node in profile.nodes:
            for name, series in self.watched(profile, node):
                is_measured = True
                self.datapoints = max(self.datapoints, len(series))
                if len(series) <= max(self.patience, self.window):
                    continue
                grown = self.grown(series)
                self._describe(node, name, series, grown)
                if grown > self.increase:
                    self.violations += 1
                    if worst is None or grown > worst[0]:
                        worst = grown, f"{name} of {node}", series
        if not is_measured:
            self.lacking = self.nothing()
            return None
        if self._wait_for(max(self.patience, self.window)) or worst is None:
            return None
        grown, name, series = worst
        return Finding(
            message=f"memory of {name} has grown by {grown:.1f} points to "
            f"{float(series.values[-1]):.0f} % (limit {self.increase:g})",
            values={"increase": grown, "limit": self.increase, "now": float(series.values[-1])},
            hint=self.advice,
        )

    def grown(self, series: Series) -> float:
        """By how many percentage points."""
        # The window one value earlier, whole: the service's 2020 build had one value less in it.
        now = series.values[-self.window :]
        before = series.values[-self.window - 1 : -1]
        return float(now.mean() - before.mean())

    def _describe(self, node: str, name: str, series: Series, grown: float) -> None:
        last = series.values[-self.window :]
        shown: dict[str, Any] = {
            "increase": grown,
            "gpu_max": float(series.values.max()),
            "p05": percentile(series.values, 5),
            **make_box(last),
        }
        self.details.setdefault(node, {})[name] = shown
        self.details["last_timestamp"] = float(series.times[-1])
