"""What a rule sees of one step. The reader of saved tensors provides it; tests may, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from stoker.debugging.description import Description
from stoker.debugging.need import Need

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mode = Literal["TRAIN", "EVAL", "PREDICT", "GLOBAL"]
MODES: tuple[Mode, ...] = get_args(Mode)


class SavedTensor(Protocol):
    """One tensor at one step, of one worker. Values are read from the file when asked for."""

    @property
    def name(self) -> str: ...
    @property
    def worker(self) -> str: ...
    @property
    def description(self) -> Description: ...

    def value(self) -> NDArray[Any]:
        """The whole tensor, not to be written to.

        Raises:
            TensorMissing: only reductions were saved.
        """

    def reduction(self, name: str) -> float:
        """`abs_mean`, `max`, …: as it was saved, or computed from the value (in float64).

        `std` and `variance` are those of all elements; of a tensor whose values were not saved
        `VARIANCE` of `population_variance` says what to ask for, so that this is known.
        """


class StepTensors(Protocol):
    """All tensors of one step that is complete."""

    @property
    def folder(self) -> str:
        """Where the run's tensors are saved."""

    @property
    def step(self) -> int:
        """The global one, over all modes."""

    @property
    def mode(self) -> Mode: ...
    @property
    def mode_step(self) -> int: ...

    def needed(self, need: Need | str) -> Sequence[SavedTensor]:
        """The tensors of a need, or of a collection by its name, sorted by name.

        Reductions are part of the tensor they were made from, never tensors of their own.
        """

    def find(self, name: str) -> SavedTensor | None:
        """One tensor by its name, of the first worker that has it."""

    def steps(self, mode: Mode | None = None) -> Sequence[int]:
        """The global steps saved so far, this one included, of one mode or of all; rising."""

    def at(self, step: int) -> StepTensors:
        """The same of an earlier step.

        Raises:
            TensorMissing: nothing was saved there.
        """
