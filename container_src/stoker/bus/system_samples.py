"""system/incremental/<YYYYMMDDHH>/<minute>.<node>.json: what a host's hardware did, in JSON lines.

The layout and the events are SageMaker's, so its readers understand the files. The dimensions that
only Stoker has are in files of the same form below stoker/system: SageMaker's charts draw all that
they find, and some of them only as far as the shortest series.

{"Type": "cpu", "Name": "cpu0", "Dimension": "CPUUtilization", "Value": 4.76, "NodeId": "algo-1",
 "Timestamp": 1591160699.45}

`Timestamp` is Unix time in seconds, the same for all events of one sample; `<minute>` is that of
the full minute the events are in. docs/architecture/07-profiler.md lists the dimensions.
"""

from __future__ import annotations

import os
import time

from stoker.contract.files import read_regular
from stoker.contract.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# SageMaker's.
CPU_UTILIZATION = "CPUUtilization"
IO_WAIT = "I/OWaitPercentage"
GPU_UTILIZATION = "GPUUtilization"
GPU_MEMORY_UTILIZATION = "GPUMemoryUtilization"
MEMORY = "Memory"
"""SageMaker names the value, not the dimension: `MEMORY_USED_PERCENT` is the `Name`."""
MEMORY_USED_PERCENT = "MemoryUsedPercent"
NETWORK = "Algorithm"
"""Names: ReceiveBytesPerSecond and TransmitBytesPerSecond, of all interfaces but the loopback."""

# Stoker's.
CONTAINER_CPU = "ContainerCPUUtilization"
"""Used by the container, in percent of what it may use; the name is `container`."""
CPU_LIMIT = "CPULimit"
"""In cores; a quota makes it less than the cores that are listed."""
CPU_THROTTLED = "CPUThrottled"
"""Percent of the scheduler's periods in which the quota stopped the container."""
RUNNABLE = "RunnableThreads"
"""Threads of the container's processes that run or wait for a core."""
MEMORY_BYTES = "MemoryBytes"
"""Names: `used` (without the cache of files) and `limit`."""
SHM_UTILIZATION = "ShmUtilization"
"""Shared memory used, in percent; the name is `/dev/shm`."""
PRESSURE = "PressureStall"
"""Percent of the time lost to waiting; names: `cpu some`, `memory full`, `io some`, …"""
DISK = "Disk"
"""Names: ReadBytesPerSecond and WriteBytesPerSecond."""
DISK_UTILIZATION = "DiskUtilization"
"""Percent of the file system full; the name is the folder."""
PROCESS_CPU = "ProcessCPUUtilization"
"""Percent of one core; the name is `<pid> <command>`. Only the busiest processes."""
PROCESS_MEMORY = "ProcessMemoryBytes"
"""Resident memory; named as above."""
GPU_MEMORY_BYTES = "GPUMemoryBytes"
"""Names: `gpu0 used`, `gpu0 limit`."""
GPU_POWER = "GPUPowerWatts"
GPU_TEMPERATURE = "GPUTemperatureCelsius"
GPU_THROTTLED = "GPUThrottled"
"""1 while power or heat slow the clock of a GPU, else 0."""

FOLDER = "system/incremental"
FURTHER_FOLDER = "stoker/system"
SAGEMAKERS = frozenset(
    (CPU_UTILIZATION, IO_WAIT, GPU_UTILIZATION, GPU_MEMORY_UTILIZATION, MEMORY, NETWORK)
)
"""The dimensions in `FOLDER`; all others are in `FURTHER_FOLDER`."""


def samples_file(profiler_dir: str, timestamp: float, node: str, *, folder: str = FOLDER) -> str:
    """The file that an event of this time belongs to."""
    hour = time.strftime("%Y%m%d%H", time.gmtime(timestamp))
    minute = int(timestamp) // 60 * 60
    return f"{profiler_dir}/{folder}/{hour}/{minute:010}.{node}.json"


def list_sample_files(profiler_dir: str) -> Iterator[tuple[str, str, int]]:
    """File, node and minute, in the order of time in each folder; other files are skipped."""
    for root in (f"{profiler_dir}/{FOLDER}", f"{profiler_dir}/{FURTHER_FOLDER}"):
        for hour in _names(root):
            for name in _names(f"{root}/{hour}"):
                minute, _, rest = name.partition(".")
                if minute.isdigit() and rest.endswith(".json"):
                    yield f"{root}/{hour}/{name}", rest.removesuffix(".json"), int(minute)


def read_events(file: str) -> list[dict[str, Any]]:
    """The events of one file, as they are written; a line that is not one is skipped."""
    try:
        text = read_regular(file).decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.splitlines()
    try:
        # At once: three times as fast as line by line.
        whole: list[dict[str, Any]] = loads(f"[{','.join(lines)}]")
        return whole
    except (ValueError, RecursionError):
        return [event for line in lines if isinstance(event := _parse(line), dict)]


def _parse(line: str) -> object:
    try:
        return loads(line)
    except (ValueError, RecursionError):
        return None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
