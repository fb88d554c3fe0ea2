"""CPUs that are little used, where there is no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.bus.system_samples import GPU_UTILIZATION
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule, make_box, percentile
from stoker.debugging.rule import Finding, parameter


class LowCPUUtilization(ProfilerRule):
    """The CPUs are little used on a machine without GPU. An extension of Stoker.

    Fires when the 95th percentile of the last `window` snapshots is below `threshold_p95`, unless
    processes waited for a core meanwhile: then other programs of the machine have them.

    What usually helps: more threads or loader workers, a larger batch, or a smaller instance.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = "more threads or loader workers, a larger batch, or a smaller instance"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20", "window": "20"}

    threshold_p95: float = parameter(50, "for little used", minimum=0, maximum=100)
    window: int = parameter(500, "snapshots that it looks at", minimum=1)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {}
        low: list[tuple[float, str]] = []
        for node in profile.nodes:
            used = profile.cpu(node)
            if used is None or profile.devices(node, GPU_UTILIZATION):
                continue
            self.datapoints = max(self.datapoints, len(used))
            if len(used) <= self.patience:
                continue
            last = used.values[-self.window :]
            self.details[node] = {"cpu": make_box(last)}
            p95 = percentile(last, 95)
            since = float(used.times[-self.window :][0])
            if p95 < self.threshold_p95 and not profile.is_crowded(node, since):
                low.append((p95, node))
        self.violations = len(low)
        if not self.datapoints:
            self.lacking = "there are GPUs, or no CPU was measured"
            return None
        if self._wait_for(self.patience) or not low:
            return None
        p95, node = min(low)
        return Finding(
            message=f"the CPUs of {node} are used to {p95:.0f} % at most (95th percentile, limit "
            f"{self.threshold_p95:g} %)",
            values={"percent": p95, "threshold": self.threshold_p95},
            hint=self.advice,
        )
