"""Steps that are too large or too small for the weights they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.trainable import is_training, leave_out_frozen
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid, TensorMissing, TensorsUnreadable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Key = tuple[str, str]
"""Name and worker."""
_NEED = Need(collection="weights")
_BLOCK = 1 << 16
"""Elements at a time: small enough to stay in the processor's cache."""


class WeightUpdateRatio(Rule):
    """Weights change far too much or hardly at all: the learning rate does not fit.

    Fires when ‖w − w₀‖ / (‖w₀‖ + `epsilon`) of any weight is above `large_threshold` or below
    `small_threshold`, where w₀ is the same weight at an earlier saved step. Only steps of training
    count; frozen parameters are left out, for they never change.

    With gradient accumulation weights change only once in several steps: save at a multiple of
    that number. A longer `num_steps` does not help: at first there is no older step to compare.

    What usually helps: a learning rate of another order of magnitude (a ratio near 1e-3 a step is
    common), warm-up, gradient clipping.
    """

    num_steps: int | None = parameter(
        None,
        "compare with the oldest saved step of the last so many; the saved step before if not set",
        minimum=1,
    )
    large_threshold: float = parameter(10.0, "largest ratio that is healthy", minimum=0)
    small_threshold: float = parameter(1e-8, "smallest ratio that is healthy", minimum=0)
    epsilon: float = parameter(1e-9, "added to ‖w₀‖, which may be zero", minimum=0)

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._steps: list[int] = []
        """Where weights were saved, as far back as they are compared."""
        self._asked = 0
        self._has_compared = False

    def validate(self) -> None:
        if self.small_threshold > self.large_threshold:
            raise RuleInvalid(
                f"rule WeightUpdateRatio would always fire: small_threshold "
                f"{self.small_threshold:g} is above large_threshold {self.large_threshold:g}",
                fix="what is between them is healthy: small_threshold is the smaller one",
            )

    def needs(self) -> Sequence[Need]:
        return [_NEED]

    def least_steps(self) -> int:
        # Within num_steps of each other: until two were, there have been too few.
        return 2 if self._has_compared else max(2, self._asked + 1)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        self._asked += 1
        if not is_training(tensors):
            return None
        weights, note = leave_out_frozen(tensors.needed(_NEED))
        if not weights:
            return None
        # Before it is remembered: nothing can be compared with a step that cannot be read.
        values = {_key(tensor): tensor.value() for tensor in weights}
        for before in self._steps_to_compare(step):
            try:
                ratios = self._ratios(values, tensors.at(before))
            except (TensorMissing, TensorsUnreadable):
                # Left in place, it would be tried again at every later step.
                self._steps.remove(before)
                continue
            self._has_compared = True
            return self._evaluate(ratios, step, before, note)
        return None

    def _steps_to_compare(self, step: int) -> list[int]:
        """The earlier steps that count, the best first; remembers this step for later ones."""
        if self.num_steps is None:
            earlier = self._steps[-1:]
        else:
            earlier = [s for s in self._steps if s >= step - self.num_steps]
        self._steps = [*earlier, step]
        return earlier

    def _ratios(
        self, values: Mapping[_Key, NDArray[Any]], earlier: StepTensors
    ) -> list[tuple[float, str]]:
        old = {_key(tensor): tensor for tensor in earlier.needed(_NEED)}
        ratios = []
        for key, now in values.items():
            then = old.get(key)
            if then is None:
                continue
            before = then.value()
            if now.shape == before.shape and now.size:
                ratios.append((update_ratio(now, before, self.epsilon), key[0]))
        return ratios

    def _evaluate(
        self, ratios: Sequence[tuple[float, str]], step: int, before: int, note: str
    ) -> Finding | None:
        large = [found for found in ratios if found[0] > self.large_threshold]
        small = [found for found in ratios if found[0] < self.small_threshold]
        if not large and not small:
            return None
        ratio, name = max(large) if large else min(small)
        side, limit = ("above", self.large_threshold) if large else ("below", self.small_threshold)
        helps = (
            "lower the learning rate, warm up or clip gradients; a weight that starts at 0 may "
            "jump once"
            if large
            else "raise the learning rate, and see whether the optimizer has this parameter"
        )
        return Finding(
            message=f"{name} changed by a ratio of {ratio:.3g} from step {before} to step {step}, "
            f"{side} {limit:g} ({len(large) + len(small)} of {len(ratios)} weights are out of "
            "bounds)",
            tensor=name,
            values={
                "ratio": ratio,
                "threshold": limit,
                "compared_with_step": before,
                "too_large": len(large),
                "too_small": len(small),
            },
            hint=helps + note,
        )


def update_ratio(now: NDArray[Any], before: NDArray[Any], epsilon: float) -> float:
    """‖now − before‖ / (‖before‖ + epsilon), in float64."""
    new, old = _real(now), _real(before)
    change = size = 0.0
    with np.errstate(all="ignore"):
        for start in range(0, new.size, _BLOCK):
            block = old[start : start + _BLOCK].astype(np.float64)
            difference = new[start : start + _BLOCK] - block
            change += float(np.dot(difference, difference))
            size += float(np.dot(block, block))
        return float(np.sqrt(change) / (np.sqrt(size) + np.float64(epsilon)))


def _key(tensor: SavedTensor) -> _Key:
    return tensor.name, tensor.worker


def _real(array: NDArray[Any]) -> NDArray[Any]:
    """In one row; complex numbers as pairs, which have the same norm."""
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
