"""GPU memory that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from stoker.bus.system_samples import GPU_MEMORY_UTILIZATION
from stoker.debugging.profiler_rules.memory_increase import MemoryIncrease
from stoker.debugging.profiler_rules.profile import Profile, Series
from stoker.debugging.rule import parameter


class GPUMemoryIncrease(MemoryIncrease):
    """The memory of a GPU grows suddenly.

    Fires when the mean of the last `window` snapshots is more than `increase` percentage points
    above the mean of the window one snapshot earlier.

    What usually helps: keep no tensors of a step beyond it (`loss.item()`), a smaller batch, or a
    GPU with more memory.
    """

    advice: ClassVar[str] = (
        "keep no tensor of a step beyond it (`loss.item()`), a smaller batch, or a larger GPU"
    )
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    increase: float = parameter(5, "percentage points", minimum=0, maximum=100)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)
    window: int = parameter(10, "snapshots that it looks at", minimum=1)

    def watched(self, profile: Profile, node: str) -> Iterable[tuple[str, Series]]:
        return profile.devices(node, GPU_MEMORY_UTILIZATION).items()

    def nothing(self) -> str:
        return "no GPU memory was measured"
