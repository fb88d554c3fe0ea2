"""GPUs that are idle while something else is busy: what two rules have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.bus.system_samples import GPU_UTILIZATION
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.aggregates import aggregate
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

_MOST_MOMENTS = 1000
"""So many moments are named in the details."""


class Bottleneck(ProfilerRule):
    """The base of CPUBottleneck and IOBottleneck."""

    dimension: ClassVar[str] = ""
    busy: ClassVar[str] = ""
    """In words: which devices are busy, and with what."""
    device: ClassVar[str] = "CPUs"

    threshold: float
    gpu_threshold: float
    patience: int

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._stuck: list[tuple[Floats, Floats, Floats]] = []
        """Times, GPUs and busy devices of the bottlenecks of each node."""

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.details = 0, {"low_gpu_utilization": 0, "bottlenecks": {}}
        self._stuck = []
        moments: list[float] = []
        for node in profile.nodes:
            moments += self._look_at_node(profile, node)
        if not any(profile.devices(node, GPU_UTILIZATION) for node in profile.nodes):
            self.lacking = "no GPU was measured, and it is about GPUs that wait"
            return None
        self.violations = len(moments)
        share = 100 * len(moments) / self.datapoints if self.datapoints else 0.0
        if self._wait_for(self.patience) or share <= self.threshold:
            return None
        spans = _join(sorted(moments))
        self.details |= aggregate(profile, spans)
        return Finding(
            message=f"in {share:.0f} % of {self.datapoints} snapshots a GPU was below "
            f"{self.gpu_threshold:g} % while {self.busy} (limit {self.threshold:g} %)",
            values={"percent": share, "threshold": self.threshold},
            hint=self.advice,
        )

    def limit(self) -> float:
        """Above it a device is busy."""
        raise NotImplementedError

    def _look_at_node(self, profile: Profile, node: str) -> list[float]:
        times, gpus = profile.snapshots(node, GPU_UTILIZATION)
        busy_times, busy = profile.snapshots(node, self.dimension)
        if not len(times) or not len(busy_times):
            return []
        # Both are measured in the same snapshot; where they are not, the latest counts.
        place = np.clip(np.searchsorted(busy_times, times + 0.02) - 1, 0, None)
        is_idle = (gpus < self.gpu_threshold).any(axis=1)
        is_stuck = is_idle & (busy[place] > self.limit()).any(axis=1)
        self.datapoints += len(times)
        self.details["low_gpu_utilization"] += int(is_idle.sum())
        self._stuck.append((times[is_stuck], gpus[is_stuck], busy[place][is_stuck]))
        return [float(moment) for moment in times[is_stuck]]

    def report(self) -> dict[str, Any]:
        # Only here: to name each moment takes longer than to find it, and a rule looks often.
        self.details["bottlenecks"] = {
            str(float(time)): {
                "GPUs": np.flatnonzero(gpus < self.gpu_threshold).tolist(),
                self.device: np.flatnonzero(busy > self.limit()).tolist(),
            }
            for found in self._stuck
            for time, gpus, busy in zip(*(part[:_MOST_MOMENTS] for part in found), strict=True)
        }
        return super().report()


def _join(moments: list[float], gap_seconds: float = 2.0) -> list[tuple[float, float]]:
    """Moments in a row as one span: a long run has tens of thousands of them."""
    spans: list[tuple[float, float]] = []
    for moment in moments:
        if spans and moment - spans[-1][1] <= gap_seconds:
            spans[-1] = (spans[-1][0], moment)
        else:
            spans.append((moment, moment))
    return spans
