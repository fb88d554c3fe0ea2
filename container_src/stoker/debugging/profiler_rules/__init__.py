"""The profiler's rules, by the names that SageMaker's API gives them, and our extensions.

`PROFILER_CATALOGUE["CPUBottleneck"]` is a class; its file is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stoker.debugging.catalogue import Catalogue

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

PROFILER_CATALOGUE: Mapping[str, type[ProfilerRule]] = Catalogue(__name__, _MODULES)
