"""Tensors that stay as they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import (
    COLLECTIONS_HELP,
    REGEX_HELP,
    chosen_needs,
    require_choice,
    union,
)
from stoker.debugging.rules.trainable import is_training, leave_out_frozen
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import TensorMissing, TensorsUnreadable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 16
"""Elements at a time: most tensors do change, and the first block shows it."""

_Key = tuple[str, str]
"""Name and worker."""


class UnchangedTensor(Rule):
    """A tensor does not change any more, or never did.

    Fires when the last `num_steps` saved values of any chosen tensor, this step's included, are
    the same by numpy.allclose(earlier, newest). They need not be of consecutive steps. Frozen
    parameters are left out, weights and biases are not looked at while the model evaluates, and
    a tensor without elements does not count.

    With gradient accumulation weights change only once in several steps: save at a multiple of
    that number, or set `num_steps` above it.

    It happens when a parameter was not handed to the optimizer, when the learning rate is zero,
    when gradients vanished, or when every batch is the same one.

    What usually helps: a look at what the optimizer was given, at the learning rate's schedule
    and at the data loader.
    """

    collection_names: str | None = parameter(None, COLLECTIONS_HELP)
    tensor_regex: str | None = parameter(None, REGEX_HELP)
    num_steps: int = parameter(3, "how many saved values have to be the same", minimum=2)
    rtol: float = parameter(1e-5, "relative tolerance of numpy.allclose", minimum=0)
    atol: float = parameter(1e-8, "absolute tolerance of numpy.allclose", minimum=0)
    equal_nan: bool = parameter(False, "NaN is the same as NaN")

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._steps: dict[_Key, deque[int]] = {}
        """Of each tensor: the last steps at which it was saved."""

    def validate(self) -> None:
        require_choice("UnchangedTensor", self.collection_names, self.tensor_regex)

    def needs(self) -> Sequence[Need]:
        return chosen_needs(self.collection_names, self.tensor_regex)

    def least_steps(self) -> int:
        return self.num_steps

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        found, note = leave_out_frozen(union(tensors, self.needs()))
        if not is_training(tensors):
            found = [t for t in found if t.description.kind not in ("weight", "bias")]
        earlier = _Earlier(tensors, self.needs())
        unchanged = [tensor.name for tensor in found if self._is_unchanged(tensor, earlier)]
        for tensor in found:
            steps = self._steps.setdefault(_key(tensor), deque(maxlen=self.num_steps - 1))
            steps.append(step)
        if not unchanged:
            return None
        return Finding(
            message=f"{unchanged[0]} is the same at its last {self.num_steps} saved steps, up to "
            f"step {step} (rtol {self.rtol:g}, atol {self.atol:g}; {len(unchanged)} of "
            f"{len(found)} tensors)",
            tensor=unchanged[0],
            values={
                "num_steps": self.num_steps,
                "rtol": self.rtol,
                "atol": self.atol,
                "unchanged": len(unchanged),
                "tensors": len(found),
            },
            hint="see whether the optimizer has this parameter and the learning rate is above 0"
            + note,
        )

    def _is_unchanged(self, tensor: SavedTensor, earlier: _Earlier) -> bool:
        steps = self._steps.get(_key(tensor), ())
        if len(steps) < self.num_steps - 1:
            return False
        newest = tensor.value()
        if not newest.size:
            return False
        for step in reversed(steps):
            then = earlier.value(step, _key(tensor))
            if then is None:
                # Left in place, it would be reported at every later step.
                self._steps[_key(tensor)].remove(step)
                return False
            if not self._is_close(then, newest):
                return False
        return True

    def _is_close(self, earlier: NDArray[Any], newest: NDArray[Any]) -> bool:
        if earlier.shape != newest.shape:
            return False
        old, new = earlier.reshape(-1), newest.reshape(-1)
        with np.errstate(all="ignore"):
            return all(
                np.allclose(
                    old[start : start + _BLOCK],
                    new[start : start + _BLOCK],
                    rtol=self.rtol,
                    atol=self.atol,
                    equal_nan=self.equal_nan,
                )
                for start in range(0, new.size, _BLOCK)
            )


class _Earlier:
    """The same tensors at earlier steps, each step looked up once."""

    def __init__(self, tensors: StepTensors, needs: Sequence[Need]) -> None:
        self._tensors = tensors
        self._needs = needs
        self._by_step: dict[int, dict[_Key, SavedTensor]] = {}

    def value(self, step: int, key: _Key) -> NDArray[Any] | None:
        """None where it cannot be read any more."""
        try:
            tensor = self._at(step).get(key)
            return None if tensor is None else tensor.value()
        except (TensorMissing, TensorsUnreadable):
            return None

    def _at(self, step: int) -> Mapping[_Key, SavedTensor]:
        if step not in self._by_step:
            self._by_step[step] = {}  # asked once, even if it cannot be read
            found = union(self._tensors.at(step), self._needs)
            self._by_step[step] = {_key(tensor): tensor for tensor in found}
        return self._by_step[step]


def _key(tensor: SavedTensor) -> _Key:
    return tensor.name, tensor.worker
