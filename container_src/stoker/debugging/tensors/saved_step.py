"""What is saved of one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stoker.contract.record import Record
from stoker.debugging.step_tensors import Mode

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SavedStep(Record):
    """The tensors of one worker at one step. Arrays are written from where they are, not copied.

    Example:
        >>> SavedStep(step=20, mode="TRAIN", mode_step=18, tensors={"Net_fc.weight": weight})
    """

    step: int
    """The global one, over all modes."""
    mode: Mode
    mode_step: int
    tensors: Mapping[str, NDArray[Any]] = {}
    reductions: Mapping[str, Mapping[str, float]] = {}
    """Tensor → name of a reduction (`abs_mean`, `l2_norm`, …) → its value."""
    shapes: Mapping[str, tuple[int, ...]] = {}
    """Of tensors that are not saved themselves."""
    wall_time: float | None = None
    """Seconds since 1970; None means when it is written."""

    @property
    def size_bytes(self) -> int:
        """How much memory it holds."""
        return sum(array.nbytes for array in self.tensors.values())
