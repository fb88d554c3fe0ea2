"""GPUs that are little used, or by fits and starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.bus.system_samples import GPU_UTILIZATION
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule, make_box, percentile
from stoker.debugging.rule import Finding, parameter


class LowGPUUtilization(ProfilerRule):
    """A GPU is little used, or its use goes up and down.

    Fires when the 95th percentile of the last `window` snapshots is below `threshold_p95`; or when
    it is above, but the 5th percentile is below `threshold_p5`.

    What usually helps: look for bottlenecks and blocking calls, a larger batch, another
    distribution strategy, or a smaller instance.
    """

    advice: ClassVar[str] = (
        "look for bottlenecks and blocking calls (.item(), prints), or take a larger batch"
    )
    quick: ClassVar[Mapping[str, str]] = {"patience": "20", "window": "20"}

    threshold_p95: float = parameter(70, "for little used", minimum=0, maximum=100)
    threshold_p5: float = parameter(10, "for up and down", minimum=0, maximum=100)
    window: int = parameter(500, "snapshots that it looks at", minimum=1)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        found: list[str] = []
        self.datapoints, self.details = 0, {}
        is_measured = False
        for node in profile.nodes:
            for name, series in profile.devices(node, GPU_UTILIZATION).items():
                is_measured = True
                self.datapoints = max(self.datapoints, len(series))
                if len(series) <= self.patience:
                    continue
                last = series.values[-self.window :]
                p95, p5 = percentile(last, 95), percentile(last, 5)
                top = float(series.values.max())
                box = {"gpu_max": top, "gpu_95": p95, "gpu_5": p5, **make_box(last)}
                self.details.setdefault(node, {})[name] = box
                self.details["last_timestamp"] = float(series.times[-1])
                if p95 < self.threshold_p95:
                    found.append(f"{name} of {node} is used to {p95:.0f} % at most")
                elif p95 > self.threshold_p95 and p5 < self.threshold_p5:
                    found.append(f"{name} of {node} goes from {p5:.0f} to {p95:.0f} %")
        self.violations = len(found)
        if not is_measured:
            self.lacking = "no GPU was measured, and it is about GPUs"
            return None
        if self._wait_for(self.patience) or not found:
            return None
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        return Finding(
            message=f"{', '.join(found[:3])}{more} (limits {self.threshold_p95:g} and "
            f"{self.threshold_p5:g} %)",
            values={"gpus": len(found)},
            hint=self.advice,
        )
