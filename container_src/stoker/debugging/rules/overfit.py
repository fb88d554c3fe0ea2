"""The validation loss is far above the training loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.losses import lacking_modes, mean_loss
from stoker.debugging.rules.tensor_choice import REGEX_HELP, chosen_needs, union
from stoker.debugging.step_tensors import StepTensors


class Overfit(Rule):
    """The validation loss is far above the training loss: the model learns its data by heart.

    Fires when (validation - training) / |training| is above `ratio_threshold` at `patience` saved
    EVAL steps in a row. `validation` is the mean loss of this block of EVAL steps so far,
    `training` the mean loss of the TRAIN steps before it, back to the block before.

    It happens with small data sets, large models and long trainings, and where the two sets of
    data differ in kind.

    What usually helps: to stop earlier, weight decay, dropout, augmentation, more data.
    """

    tensor_regex: str | None = parameter(None, f"{REGEX_HELP}; not set: the losses")
    start_step: int = parameter(0, "steps before this one are not looked at", minimum=0)
    patience: int = parameter(1, "EVAL steps in a row that must be too high", minimum=1)
    ratio_threshold: float = parameter(
        0.1, "how much higher the validation loss may be, as a share of the training loss"
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._training = _Mean()
        self._validation = _Mean()
        self._last_mode = ""
        self._modes: set[str] = set()
        self._in_a_row = 0

    def needs(self) -> Sequence[Need]:
        return chosen_needs(None, self.tensor_regex) or [Need(collection="losses")]

    def least_steps(self) -> int:
        return 1 + self.patience

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        if tensors.mode not in ("TRAIN", "EVAL") or step < self.start_step:
            return None
        loss = mean_loss(union(tensors, self.needs()))
        if loss is None:
            return None
        # Each block of steps of one mode starts a new mean. The mean of the other mode stays:
        # where no TRAIN step was saved between two validations, the last known one counts.
        mean = self._training if tensors.mode == "TRAIN" else self._validation
        if tensors.mode != self._last_mode:
            mean.clear()
        self._last_mode = tensors.mode
        self._modes.add(tensors.mode)
        mean.add(loss)
        return self._compare(tensors) if tensors.mode == "EVAL" else None

    def lacks(self) -> str:
        return lacking_modes(self._modes, start_step=self.start_step)

    def _compare(self, tensors: StepTensors) -> Finding | None:
        training, validation = self._training.value, self._validation.value
        ratio = _excess(validation, training)
        self._in_a_row = self._in_a_row + 1 if ratio > self.ratio_threshold else 0
        if self._in_a_row < self.patience:
            return None
        return Finding(
            message=f"validation loss {validation:.4g} exceeds training loss {training:.4g} by "
            f"{ratio:.0%} at step {tensors.step} (limit {self.ratio_threshold:.0%}), for "
            f"{self._in_a_row} EVAL steps in a row",
            values={
                "validation_loss": validation,
                "training_loss": training,
                "ratio": ratio,
                "ratio_threshold": self.ratio_threshold,
            },
            hint="stop earlier, or try weight decay, dropout, augmentation or more data",
        )


class _Mean:
    """The mean of some numbers; NaN before the first."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, number: float) -> None:
        self._sum += number
        self._count += 1

    @property
    def value(self) -> float:
        return self._sum / self._count if self._count else math.nan


def _excess(validation: float, training: float) -> float:
    """NaN, which exceeds nothing, where one of them is unknown."""
    if training == 0:
        return math.copysign(math.inf, validation) if validation else 0.0
    # The absolute value, as a loss below zero would turn the sign around (decision 30).
    return (validation - training) / abs(training)
