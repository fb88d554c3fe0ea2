"""GPUs that a larger batch would use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stoker.bus.system_samples import CPU_UTILIZATION, GPU_MEMORY_UTILIZATION, GPU_UTILIZATION
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule, make_box, percentile
from stoker.debugging.rule import Finding, parameter


class BatchSize(ProfilerRule):
    """CPU, GPU and GPU memory are all little used: the batch is small for this machine.

    Fires when the 95th percentile of the last `window` snapshots is below its threshold for the
    CPUs, and for a GPU and its memory, too.

    What usually helps: a larger batch, or a smaller instance.
    """

    advice: ClassVar[str] = "a larger batch, or a smaller instance"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20", "window": "20"}

    cpu_threshold_p95: float = parameter(70, "of the CPUs, in percent", minimum=0, maximum=100)
    gpu_threshold_p95: float = parameter(70, "of a GPU, in percent", minimum=0, maximum=100)
    gpu_memory_threshold_p95: float = parameter(
        70, "of a GPU's memory, in percent", minimum=0, maximum=100
    )
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)
    window: int = parameter(500, "snapshots that it looks at", minimum=1)

    def look(self, profile: Profile) -> Finding | None:
        found: list[str] = []
        self.datapoints, self.details = 0, {}
        for node in profile.nodes:
            cpu = profile.total(node, CPU_UTILIZATION)
            gpus = profile.devices(node, GPU_UTILIZATION)
            if cpu is None or not gpus:
                continue
            self.datapoints = max(self.datapoints, len(cpu))
            if len(cpu) <= max(self.window, self.patience):
                continue
            last = cpu.values[-self.window :]
            boxes: dict[str, Any] = {"cpu": make_box(last)}
            self.details[node] = boxes
            if percentile(last, 95) < self.cpu_threshold_p95:
                found += self._look_at_gpus(profile, node, boxes)
        if not any(profile.devices(node, GPU_UTILIZATION) for node in profile.nodes):
            self.lacking = "no GPU was measured, and it is about GPUs"
        elif not self._wait_for(max(self.window, self.patience)):
            self.details["last_timestamp"] = profile.last
        self.violations = len(found)
        if not found:
            return None
        return Finding(
            message=f"CPUs, and {', '.join(found)} with their memory, are below "
            f"{self.gpu_threshold_p95:g} % (95th percentile)",
            values={"gpus": len(found)},
            hint=self.advice,
        )

    def _look_at_gpus(self, profile: Profile, node: str, boxes: dict[str, Any]) -> list[str]:
        memory = profile.devices(node, GPU_MEMORY_UTILIZATION)
        found = []
        for name, series in profile.devices(node, GPU_UTILIZATION).items():
            if len(series) <= self.window or name not in memory:
                continue
            used, held = series.values[-self.window :], memory[name].values[-self.window :]
            boxes[name], boxes[f"{name}_memory"] = make_box(used), make_box(held)
            is_idle = percentile(used, 95) < self.gpu_threshold_p95
            if is_idle and percentile(held, 95) < self.gpu_memory_threshold_p95:
                found.append(f"{name} of {node}")
        return found
