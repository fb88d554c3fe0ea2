"""GPUs that wait for the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.bus.system_samples import IO_WAIT
from stoker.debugging.profiler_rules.bottleneck import Bottleneck
from stoker.debugging.rule import parameter


class IOBottleneck(Bottleneck):
    """A GPU is idle while a CPU core waits for the disk or the network.

    Fires when that holds in more than `threshold` percent of the snapshots.

    What usually helps: prefetching, or fewer and larger files in a binary format.
    """

    dimension: ClassVar[str] = IO_WAIT
    busy: ClassVar[str] = "a CPU core waited for I/O"
    advice: ClassVar[str] = "prefetching, or fewer and larger files in a binary format"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    threshold: float = parameter(50, "percent of the snapshots", minimum=0, maximum=100)
    io_threshold: float = parameter(50, "above it a core waits for I/O", minimum=0, maximum=100)
    gpu_threshold: float = parameter(10, "below it a GPU is idle", minimum=0, maximum=100)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def limit(self) -> float:
        return self.io_threshold
