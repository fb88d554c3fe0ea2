"""How often the nodes of a layer were active, counted over a whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.debugging.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stoker.debugging.step_tensors import SavedTensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """The nodes of one layer: every position of its tensor except in the batch."""

    active: NDArray[np.uint32]
    """Of each node: in how many observations it was active."""
    observations: int

    def inactive_percent(self, threshold_inactivity: float) -> float:
        """How many percent of the nodes were active in fewer observations than that percentage.

        0 of a layer without nodes or observations.
        """
        if not self.active.size or not self.observations:
            return 0.0
        rare = self.active * 100.0 < threshold_inactivity * self.observations
        return 100.0 * int(np.count_nonzero(rare)) / rare.size


class Activity:
    """The layers seen so far; one count a node is all that it keeps."""

    def __init__(self) -> None:
        self._layers: dict[tuple[str, str], Layer] = {}

    def add(self, tensor: SavedTensor, is_active: NDArray[Any]) -> Layer:
        """Counts one more step of a layer.

        Args:
            tensor: what was looked at.
            is_active: of each of its elements; the first dimension is the batch. A layer whose
                other dimensions changed is counted from the start.
        """
        batch = np.atleast_1d(is_active)
        active = batch.sum(axis=0, dtype=np.uint32)
        key = (tensor.name, tensor.worker)
        before = self._layers.get(key)
        observations = batch.shape[0]
        # The batch may be of another size, the nodes may not.
        if before is not None and before.active.shape == active.shape:
            active = active + before.active
            observations += before.observations
        self._layers[key] = layer = Layer(active=np.asarray(active), observations=observations)
        return layer


def few_observations(count: int, threshold_inactivity: float) -> str:
    """A warning where one active observation more would already make a node a live one."""
    if count * threshold_inactivity >= 100:
        return ""
    return f"only {count} observations yet: see whether it stays so at later steps"
