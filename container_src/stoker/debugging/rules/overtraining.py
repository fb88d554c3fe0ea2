"""Neither the training loss nor the validation loss gets better any more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.losses import lacking_modes, mean_loss
from stoker.debugging.step_tensors import StepTensors

_NEED = Need(collection="losses")


class Overtraining(Rule):
    """Neither loss gets better any more: further training is wasted, or harms the model.

    A loss is a new optimum when it is lower than the best of its mode by at least `delta`.
    Fires when the training loss had no new optimum for `patience_train` saved TRAIN steps, or the
    validation loss for `patience_validation` saved EVAL steps, and the last step of the other
    mode was not a new optimum either.

    It happens to every training that runs long enough, and early with a learning rate that is
    too large to get closer.

    What usually helps: to stop and keep the best checkpoint, or to lower the learning rate.
    """

    patience_train: int = parameter(
        5, "saved TRAIN steps without a new optimum that are too many", minimum=1
    )
    patience_validation: int = parameter(
        10, "saved EVAL steps without a new optimum that are too many", minimum=1
    )
    delta: float = parameter(0.01, "by how much a loss must be lower than the best", minimum=0)

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._modes: set[str] = set()
        self._train = _Optimum(self.delta)
        self._validation = _Optimum(self.delta)

    def needs(self) -> Sequence[Need]:
        return [_NEED]

    def least_steps(self) -> int:
        # An optimum in each mode, one step without in the other, and the patience itself.
        return 3 + min(self.patience_train, self.patience_validation)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        if tensors.mode not in ("TRAIN", "EVAL"):
            return None
        loss = mean_loss(tensors.needed(_NEED))
        if loss is None:
            return None
        self._modes.add(tensors.mode)
        (self._train if tensors.mode == "TRAIN" else self._validation).add(loss)
        without = (self._train.steps_without, self._validation.steps_without)
        if not all(without):
            return None
        if without[0] < self.patience_train and without[1] < self.patience_validation:
            return None
        return self._finding(tensors)

    def lacks(self) -> str:
        return lacking_modes(self._modes)

    def _finding(self, tensors: StepTensors) -> Finding:
        train, validation = self._train, self._validation
        return Finding(
            message=f"no loss better by {self.delta:g} until step {tensors.step}: none for "
            f"{train.steps_without} saved TRAIN steps (limit {self.patience_train}, best "
            f"{train.best:.4g}) and for {validation.steps_without} saved EVAL steps "
            f"(limit {self.patience_validation}, best {validation.best:.4g})",
            values={
                "train_steps_without": train.steps_without,
                "validation_steps_without": validation.steps_without,
                "train_best": train.best,
                "validation_best": validation.best,
                "delta": self.delta,
            },
            hint="stop here and keep the best checkpoint, or lower the learning rate",
        )


class _Optimum:
    """The best loss of one mode, and how many steps ago it was."""

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self.best = math.inf
        self.steps_without = 0

    def add(self, loss: float) -> None:
        if loss < self.best and self.best - loss >= self._delta:
            self.best, self.steps_without = loss, 0
        elif self.best < math.inf:  # before the first number there is nothing to be better than
            self.steps_without += 1
