"""More threads than cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.bus.system_samples import RUNNABLE
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter


class CPUSaturated(ProfilerRule):
    """All CPUs are busy and more threads want to run than there are cores. An extension of Stoker.

    Fires when the median of the last `window` snapshots is above `threshold_p50` percent, and
    that of the runnable threads above `threads_per_core` per core.

    What usually helps: fewer threads (`OMP_NUM_THREADS`) or fewer loader workers; all ranks and
    workers of a host share its cores.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "fewer threads (OMP_NUM_THREADS) or loader workers: all ranks and workers share the cores"
    )
    quick: ClassVar[Mapping[str, str]] = {"patience": "20", "window": "20"}

    threshold_p50: float = parameter(95, "of the CPUs, in percent", minimum=0, maximum=100)
    threads_per_core: float = parameter(1.5, "runnable threads for each core", minimum=0)
    window: int = parameter(500, "snapshots that it looks at", minimum=1)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {}
        worst: tuple[float, float, str] | None = None
        for node in profile.nodes:
            used, threads = profile.cpu(node), profile.one(node, RUNNABLE)
            cores = profile.cores(node)
            if used is None or threads is None or not cores:
                continue
            self.datapoints = max(self.datapoints, len(used))
            busy = float(np.median(used.values[-self.window :]))
            per_core = float(np.median(threads.values[-self.window :])) / cores
            self.details[node] = {"cpu_p50": busy, "threads_per_core": per_core, "cores": cores}
            if busy > self.threshold_p50 and per_core > self.threads_per_core:
                self.violations += 1
                worst = max(worst or (0.0, 0.0, ""), (per_core, busy, node))
        if not self.datapoints:
            self.lacking = "no runnable threads were measured"
            return None
        if self._wait_for(self.patience) or worst is None:
            return None
        per_core, busy, node = worst
        return Finding(
            message=f"{per_core:.1f} threads want to run on each core of {node}, which is used to "
            f"{busy:.0f} % (limits {self.threads_per_core:g} and {self.threshold_p50:g} %)",
            values={"threads_per_core": per_core, "percent": busy},
            hint=self.advice,
        )
