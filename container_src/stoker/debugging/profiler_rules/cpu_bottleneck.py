"""GPUs that wait for the CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.bus.system_samples import CPU_UTILIZATION
from stoker.debugging.profiler_rules.bottleneck import Bottleneck
from stoker.debugging.rule import parameter


class CPUBottleneck(Bottleneck):
    """A GPU is idle while a CPU core is fully busy.

    Fires when that holds in more than `threshold` percent of the snapshots.

    What usually helps: more loader workers, or prefetching; less work per sample.
    """

    dimension: ClassVar[str] = CPU_UTILIZATION
    busy: ClassVar[str] = "a CPU core was busy"
    advice: ClassVar[str] = "more loader workers or prefetching, or less work for each sample"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    threshold: float = parameter(50, "percent of the snapshots", minimum=0, maximum=100)
    cpu_threshold: float = parameter(90, "above it a core is busy", minimum=0, maximum=100)
    gpu_threshold: float = parameter(10, "below it a GPU is idle", minimum=0, maximum=100)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def limit(self) -> float:
        return self.cpu_threshold
