"""Host memory that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from stoker.bus.system_samples import MEMORY_BYTES, MEMORY_USED_PERCENT
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.memory_increase import MemoryIncrease
from stoker.debugging.profiler_rules.profile import Profile, Series
from stoker.debugging.rule import parameter


class CPUMemoryIncrease(MemoryIncrease):
    """The memory of the container grows and grows. An extension of Stoker.

    Fires when the mean of the last `window` snapshots is more than `increase` percentage points
    above that of the `window` snapshots after the first third: loading the model and the data is
    over by then.

    What usually helps: keep no tensors of a step beyond it (`loss.item()`), and no lists that grow
    with each batch; with loader workers, NumPy arrays instead of lists of Python objects.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "keep no tensor of a step beyond it (`loss.item()`), and no list that grows with batches"
    )
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    increase: float = parameter(5, "percentage points", minimum=0, maximum=100)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)
    window: int = parameter(10, "snapshots that it looks at", minimum=1)

    def watched(self, profile: Profile, node: str) -> Iterable[tuple[str, Series]]:
        series = memory_percent(profile, node)
        return [("the container", series)] if series is not None else []

    def nothing(self) -> str:
        return "no memory was measured"

    def grown(self, series: Series) -> float:
        third = len(series) // 3
        before = series.values[third : third + self.window]
        return float(series.values[-self.window :].mean() - before.mean())


def memory_percent(profile: Profile, node: str) -> Series | None:
    """Of the container's own limit where it has one, else of the machine."""
    used = profile.samples.get(node, {}).get((MEMORY_BYTES, "used"))
    limit = profile.samples.get(node, {}).get((MEMORY_BYTES, "limit"))
    if used is not None and limit is not None and len(used) and len(limit):
        return Series(times=used.times, values=np.asarray(100 * used.values / limit.values[-1]))
    return profile.one(node, MEMORY_USED_PERCENT)
