"""The profiler's rules, by the names that SageMaker's API gives them, and our extensions.

`PROFILER_CATALOGUE["CPUBottleneck"]` is a class; its file is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule

__all__ = ["EXTENSIONS", "PROFILER_CATALOGUE", "SERVICE_RULES"]

SERVICE_RULES = (
    *("CPUBottleneck", "IOBottleneck", "LowGPUUtilization", "StepOutlier", "GPUMemoryIncrease"),
    *("BatchSize", "MaxInitializationTime", "LoadBalancing", "OverallSystemUsage", "Dataloader"),
    "OverallFrameworkMetrics",
)
"""In the order in which the service's ProfilerReport runs them."""

EXTENSIONS = (
    *("SlowDataLoader", "SkewedRanks", "CPUSaturated", "IOWait", "CPUMemoryIncrease"),
    *("MemoryNearLimit", "ShmPressure", "LowCPUUtilization"),
)

# Name of the class → module of this package.
_MODULES = {
    "BatchSize": "batch_size",
    "CPUBottleneck": "cpu_bottleneck",
    "CPUMemoryIncrease": "cpu_memory_increase",
    "CPUSaturated": "cpu_saturated",
    "Dataloader": "dataloader",
    "GPUMemoryIncrease": "gpu_memory_increase",
    "IOBottleneck": "io_bottleneck",
    "IOWait": "io_wait",
    "LoadBalancing": "load_balancing",
    "LowCPUUtilization": "low_cpu_utilization",
    "LowGPUUtilization": "low_gpu_utilization",
    "MaxInitializationTime": "max_initialization_time",
    "MemoryNearLimit": "memory_near_limit",
    "OverallFrameworkMetrics": "overall_framework_metrics",
    "OverallSystemUsage": "overall_system_usage",
    "ProfilerReport": "profiler_report",
    "ShmPressure": "shm_pressure",
    "SkewedRanks": "skewed_ranks",
    "SlowDataLoader": "slow_data_loader",
    "StepOutlier": "step_outlier",
}


class _Catalogue(Mapping[str, "type[ProfilerRule]"]):
    """Looks a class up in its module: to list the names costs no import."""

    def __getitem__(self, name: str) -> type[ProfilerRule]:
        module = import_module(f"{__name__}.{_MODULES[name]}")
        rule: type[ProfilerRule] = getattr(module, name)
        return rule

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


PROFILER_CATALOGUE: Mapping[str, type[ProfilerRule]] = _Catalogue()
