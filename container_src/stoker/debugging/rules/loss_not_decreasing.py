"""A loss that stays the same or rises."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.losses import mean_loss
from stoker.debugging.rules.tensor_choice import (
    COLLECTIONS_HELP,
    REGEX_HELP,
    chosen_needs,
    union,
)
from stoker.debugging.step_tensors import Mode, StepTensors
from stoker.errors import RuleInvalid, TensorMissing, TensorsUnreadable


class LossNotDecreasing(Rule):
    """The loss no longer goes down.

    Fires when the loss fell by less than `diff_percent` since the newest saved step that is at
    least `num_steps` back, when it rose by more than `increase_threshold_percent`, and at once
    when it is NaN or infinite. A smaller rise is taken for noise, a loss that stays exactly the
    same is not. It compares once in `num_steps`, the mean of all losses of a step; evaluation with
    evaluation and training with training, unless `mode` is GLOBAL. While a model evaluates it
    does not change, so two losses of one evaluation are not compared.

    What usually helps: another learning rate, a look at whether labels and inputs still belong
    together, gradients (VanishingGradient) and weights that change at all (WeightUpdateRatio);
    if the loss is as low as it gets, the training is done.
    """

    collection_names: str | None = parameter(None, f"in addition to losses: {COLLECTIONS_HELP}")
    tensor_regex: str | None = parameter(None, f"in addition to losses: {REGEX_HELP}")
    use_losses_collection: bool = parameter(True, "look at the collection `losses`")
    num_steps: int = parameter(10, "how many steps are between the two losses", minimum=1)
    diff_percent: float = parameter(
        0.1, "the loss has to fall by so many percent; below 100", minimum=0
    )
    increase_threshold_percent: float = parameter(
        5.0, "a rise of so many percent is still noise; below 100", minimum=0
    )
    mode: str | None = parameter(
        None,
        "only steps of this mode, GLOBAL for all as one series; each mode by itself if not set",
        choices=("EVAL", "TRAIN", "GLOBAL"),
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._next_check: dict[Mode | None, int] = {}
        self._asked = 0
        self._modes: set[str] = set()

    def validate(self) -> None:
        for name in ("diff_percent", "increase_threshold_percent"):
            if not getattr(self, name) < 100:
                raise RuleInvalid(
                    f"parameter {name} is {getattr(self, name):g}: it has to be below 100",
                    fix="it is a percentage of the earlier loss, such as 0.1 or 5",
                )
        if not self.needs():
            raise RuleInvalid(
                "rule LossNotDecreasing has no losses to look at: use_losses_collection is False, "
                "and neither collection_names nor tensor_regex is set",
                fix='leave use_losses_collection at True, or set tensor_regex=".*my_loss"',
            )

    def needs(self) -> Sequence[Need]:
        losses = [Need(collection="losses")] if self.use_losses_collection else []
        return [*losses, *chosen_needs(self.collection_names, self.tensor_regex)]

    def least_steps(self) -> int:
        # Of one mode and far enough apart: until two were, there have been too few.
        return 2 if self._next_check else max(2, self._asked + 1)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        self._asked += 1
        self._modes.add(tensors.mode)
        if self.mode in ("EVAL", "TRAIN") and tensors.mode != self.mode:
            return None
        loss = self._loss(tensors)
        if loss is None:
            return None
        if not math.isfinite(loss):
            return self._not_finite(step, tensors, loss)
        series: Mode | None = None if self.mode == "GLOBAL" else tensors.mode
        if step < self._next_check.get(series, 0):
            return None
        before = self._earlier(tensors, tensors.steps(series))
        if before is None:
            return None
        # The guide's example: saved every 3 steps, with num_steps 10, step 21 is compared with 9,
        # and 33 is the next one.
        self._next_check[series] = step + self.num_steps
        return self._compare(step, loss, *before)

    def lacks(self) -> str:
        if self.mode in (None, "GLOBAL", *self._modes):
            return ""
        modes = ", ".join(sorted(self._modes)) or "none"
        return f"it looks at steps of mode {self.mode} only, but losses were saved in: {modes}"

    def _loss(self, tensors: StepTensors) -> float | None:
        return mean_loss(union(tensors, self.needs()))

    def _earlier(self, tensors: StepTensors, steps: Sequence[int]) -> tuple[int, float] | None:
        """The newest step that is far enough back, and its loss."""
        far = steps[: bisect_right(steps, tensors.step - self.num_steps)]
        if tensors.mode == "EVAL" and self.mode != "GLOBAL":
            far = far[: _before_this_evaluation(tensors, far)]
        for step in reversed(far):
            try:
                loss = self._loss(tensors.at(step))
            except (TensorMissing, TensorsUnreadable):
                continue  # one that is older can still be compared with
            if loss is not None:
                return step, loss
        return None

    def _compare(self, step: int, loss: float, before: int, earlier: float) -> Finding | None:
        fall = fall_percent(earlier, loss)
        rose = -fall > self.increase_threshold_percent
        if not (rose or 0 <= fall < self.diff_percent or fall == 0):
            return None
        limit = (
            f"more than {self.increase_threshold_percent:g} %"
            if rose
            else f"it has to fall by {self.diff_percent:g} %"
        )
        did = f"rose by {-fall:.3g} %" if rose else f"fell by {fall:.3g} %"
        return Finding(
            message=f"the loss {did} from {earlier:.6g} at step {before} to {loss:.6g} at step "
            f"{step}, {limit}",
            values={
                "loss": loss,
                "earlier_loss": earlier,
                "compared_with_step": before,
                "fall_percent": fall,
                "diff_percent": self.diff_percent,
                "increase_threshold_percent": self.increase_threshold_percent,
            },
            hint="try another learning rate; a loss that cannot get lower ends the training",
        )

    def _not_finite(self, step: int, tensors: StepTensors, loss: float) -> Finding:
        losses = union(tensors, self.needs())
        finite = [math.isfinite(tensor.reduction("mean")) for tensor in losses]
        first = losses[finite.index(False) if False in finite else 0]  # a sum may overflow
        return Finding(
            message=f"the loss {first.name} is {loss} at step {step}, not a finite number",
            tensor=first.name,
            values={"loss": loss},
            hint="rule ExplodingTensor shows which tensor was the first",
        )


def fall_percent(earlier: float, later: float) -> float:
    """By how many percent a loss fell; negative if it rose."""
    fall = earlier - later
    if earlier == 0:
        return math.copysign(math.inf, fall) if fall else 0.0
    return fall / abs(earlier) * 100


def _before_this_evaluation(tensors: StepTensors, steps: Sequence[int]) -> int:
    """How many of these steps of evaluation are before the current evaluation.

    Within one, the number of steps of other modes stays the same.
    """

    now = tensors.step - tensors.mode_step

    def others(step: int) -> int:
        try:
            return step - tensors.at(step).mode_step
        except (TensorMissing, TensorsUnreadable):
            return now  # it may be of this one: those before it surely are not

    return bisect_left(steps, now, key=others)
