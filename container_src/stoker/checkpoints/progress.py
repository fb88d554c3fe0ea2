"""How far a run has come, and whether this checkpoint's run was set up as this one is."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from stoker.contract.secrets import is_secret


@dataclass(kw_only=True, slots=True)
class Progress:
    """The counters of a run. All are numbers of things that are done."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of the present epoch."""
    best: float | None = None
    """The best metric that was passed to `best()` so far."""
    world_size: int = field(default=1, compare=False)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the run is: two checkpoints of one place are the same."""
        return (self.step, self.epoch, self.batch)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def continue_from(self, saved: Mapping[str, Any], *, world_size: int) -> None:
        """Takes the counters of a checkpoint over; with more ranks an epoch has fewer batches.

        Raises:
            ValueError, TypeError, KeyError: these are not counters.
        """
        counters = [saved[name] for name in ("step", "epoch", "batch", "world_size")]
        if not all(type(count) is int and count >= 0 for count in counters):
            raise ValueError(f"the counters are {counters!r:.80}")
        # Raises where it is not a number.
        if saved["best"] is not None:
            float(saved["best"])
        self.step, self.epoch = int(saved["step"]), int(saved["epoch"])
        # What is done is the batches of all ranks together: with more ranks it is fewer for each.
        self.batch = int(saved["batch"]) * int(saved["world_size"]) // world_size
        self.best = saved["best"]
        self.world_size = world_size


def is_better(value: float, than: float | None, mode: Literal["max", "min"]) -> bool:
    """Whether a metric is the best so far; NaN is worse than any number."""
    if math.isnan(value):
        return False
    if than is None or math.isnan(than):
        return True
    return value > than if mode == "max" else value < than


def make_config(hyperparameters: Mapping[str, object]) -> dict[str, str]:
    """Hyperparameters as a manifest keeps them: secret ones only to be compared."""
    texts = {name: str(value) for name, value in hyperparameters.items()}
    return {name: _hashed(text) if is_secret(name, text) else text for name, text in texts.items()}


def differences(saved: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What has changed between two runs, for people."""
    names = sorted(saved.keys() | now.keys())
    return [
        f"{name}: {saved.get(name, 'not set')} → {now.get(name, 'not set')}"
        for name in names
        if saved.get(name) != now.get(name)
    ]


def _hashed(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
