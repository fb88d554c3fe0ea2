"""What the machines were used for, as a table."""

from __future__ import annotations

from stoker.bus.system_samples import (
    CPU_UTILIZATION,
    GPU_MEMORY_UTILIZATION,
    GPU_UTILIZATION,
    IO_WAIT,
    MEMORY_USED_PERCENT,
    NETWORK,
)
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Profile, Series
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule, make_statistics
from stoker.debugging.rule import Finding


class OverallSystemUsage(ProfilerRule):
    """Statistics of CPU, GPU, memory, I/O and network for each host. It never fires."""

    def look(self, profile: Profile) -> Finding | None:
        self.details = {
            name: {} for name in ("CPU", "GPU", "CPU memory", "GPU memory", "I/O", "Network")
        }
        self.datapoints = 0
        for node in profile.nodes:
            for name, series in self._figures(profile, node).items():
                if series is not None and len(series):
                    self.details[name][node] = make_statistics(series.values)
                    self.datapoints = max(self.datapoints, len(series))
        if not self.datapoints:
            self.lacking = "no machine was measured"
        return None

    def _figures(self, profile: Profile, node: str) -> dict[str, Series | None]:
        return {
            "CPU": profile.total(node, CPU_UTILIZATION),
            "GPU": profile.total(node, GPU_UTILIZATION),
            "CPU memory": profile.one(node, MEMORY_USED_PERCENT),
            "GPU memory": profile.total(node, GPU_MEMORY_UTILIZATION),
            "I/O": profile.total(node, IO_WAIT),
            "Network": _sum(profile, node, NETWORK),
        }


def _sum(profile: Profile, node: str, dimension: str) -> Series | None:
    times, rows = profile.snapshots(node, dimension)
    return Series(times=times, values=np.asarray(rows.sum(axis=1))) if len(times) else None
