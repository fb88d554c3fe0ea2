"""GPUs that do not get the same work."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.bus.system_samples import GPU_UTILIZATION
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

_BIN_PERCENT = 2  # as the service's histograms


class LoadBalancing(ProfilerRule):
    """One GPU is used in another way than the others.

    Fires when the distance (Jensen-Shannon, 0 to 0.83) of the histograms of two GPUs' utilisation
    is above `threshold`; GPUs of different hosts are compared, too.

    What usually helps: another distribution strategy; batches of the same size on each rank.
    """

    advice: ClassVar[str] = "another distribution strategy; batches of equal size on each rank"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    threshold: float = parameter(0.5, "distance of two GPUs", minimum=0, maximum=1)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        # 100 is an edge, too: the service's 2020 build dropped what was above 98.
        edges = np.arange(0, 100 + _BIN_PERCENT, _BIN_PERCENT)
        gpus: dict[tuple[str, str], Floats] = {}
        self.datapoints, self.details = 0, {}
        for node in profile.nodes:
            of_node: dict[str, Any] = {"workloads": {}, "distances": {}}
            for name, series in profile.devices(node, GPU_UTILIZATION).items():
                self.datapoints = max(self.datapoints, len(series))
                counts, _ = np.histogram(np.clip(series.values, 0, 100), bins=edges)
                gpus[node, name] = counts / counts.sum()
                of_node["workloads"][name] = counts.tolist()
                self.details[node] = of_node
        if len(gpus) < 2:
            self.lacking = (
                f"{'one GPU was' if gpus else 'no GPU was'} measured: nothing to compare"
            )
            return None
        return self._compare(gpus)

    def _compare(self, gpus: Mapping[tuple[str, str], Floats]) -> Finding | None:
        worst: tuple[float, str] = (-1.0, "")
        self.violations = 0
        for (one, p), (other, q) in combinations(gpus.items(), 2):
            distance = find_distance(p, q)
            other_name = other[1] if one[0] == other[0] else f"{other[0]} {other[1]}"
            found = self.details[one[0]]["distances"].setdefault(one[1], {})
            found[other_name] = distance
            self.violations += distance > self.threshold
            worst = max(worst, (distance, f"{one[1]} of {one[0]} and {other[1]} of {other[0]}"))
        if self._wait_for(self.patience) or worst[0] <= self.threshold:
            return None
        return Finding(
            message=f"{worst[1]} are used differently: distance {worst[0]:.2f} "
            f"(limit {self.threshold:g})",
            values={"distance": worst[0], "threshold": self.threshold},
            hint=self.advice,
        )


def find_distance(p: Floats, q: Floats) -> float:
    """Jensen-Shannon distance, natural logarithm."""
    middle = (p + q) / 2
    return float(np.sqrt(max(0.0, (_divergence(p, middle) + _divergence(q, middle)) / 2)))


def _divergence(p: Floats, q: Floats) -> float:
    is_there = p > 0
    return float((p[is_there] * np.log(p[is_there] / q[is_there])).sum())
