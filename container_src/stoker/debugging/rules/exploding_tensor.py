"""NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import (
    COLLECTIONS_HELP,
    REGEX_HELP,
    chosen_or_all_needs,
    union,
)
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import TensorMissing

_WITNESSES = [Need(collection=name) for name in ("losses", "weights", "biases")]
"""What stays finite when a gradient scaler leaves out a step."""

_ROW_OF_SAVED_STEPS = 3
_ROW_OF_STEPS = 16
"""A scaler starts at 65536 and halves itself at each overflow: after 16 it is down to 1."""

_Measured = Sequence[tuple[SavedTensor, float]]
"""Tensors, each with its largest magnitude."""


class ExplodingTensor(Rule):
    """A tensor holds NaN or infinity: from here on the training computes nothing of use.

    Fires when any element of any tensor is NaN or ±infinity. Looks at every tensor that is saved,
    unless `collection_names` or `tensor_regex` say which; with both, at all that either names.
    Of the inputs of modules, infinity counts only where they are named so: the masks of attention
    are made of it, and an infinity that was computed shows in an output, too.

    Gradients that are not finite count only together with a loss, a weight or another tensor of
    that step, or after three saved steps in a row that lie 16 steps or more apart. A gradient
    scaler (torch.amp.GradScaler) tries how far it can go: it meets such gradients in every healthy
    run with float16, leaves that step out and halves its scale. Without a scaler the weights and
    losses of the next step are not finite either.

    It happens when the learning rate is too high, when gradients explode in deep or recurrent
    networks, by log(0) or a division by zero in a loss, in float16 without a gradient scaler,
    and by NaN in the input data.

    What usually helps: a lower learning rate, warm-up, gradient clipping, bfloat16 or a gradient
    scaler, an epsilon in logarithms and divisions; a look at the input of the first step that
    fires.
    """

    collection_names: str | None = parameter(None, COLLECTIONS_HELP)
    tensor_regex: str | None = parameter(None, REGEX_HELP)
    only_nan: bool = parameter(False, "leave infinity alone and look for NaN only")

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._row_start: int | None = None
        """The first step since which no gradient was finite; None while they are."""
        self._row_length = 0

    def validate(self) -> None:
        self.needs()  # refuses an expression that cannot be understood

    def needs(self) -> Sequence[Need]:
        # The largest |value| tells it all: NaN if there is any NaN, else infinity if there is any.
        return chosen_or_all_needs(
            self.collection_names, self.tensor_regex, reductions=("abs_max",)
        )

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        largest = self._largest(union(tensors, self.needs()))
        bad = [found for found in largest if self._is_bad(*found)]
        gradients = [found for found in largest if _is_gradient(found[0])]
        is_in_a_row = self._follow_row(step, gradients)
        if not bad:
            return None
        is_gradients_alone = all(_is_gradient(tensor) for tensor, _ in bad)
        if is_gradients_alone and not is_in_a_row and not self._has_bad_witness(tensors):
            return None
        return self._finding(step, bad, len(largest))

    def _is_bad(self, tensor: SavedTensor, value: float) -> bool:
        if math.isnan(value):
            return True
        return math.isinf(value) and not self.only_nan and not self._may_be_mask(tensor)

    def _follow_row(self, step: int, gradients: _Measured) -> bool:
        """Whether gradients have not been finite for too long."""
        if not gradients:
            return False  # evaluation, or a step at which others are saved
        if not any(self._is_bad(*found) for found in gradients):
            self._row_start, self._row_length = None, 0
            return False
        self._row_start = step if self._row_start is None else self._row_start
        self._row_length += 1
        is_long = step - self._row_start >= _ROW_OF_STEPS
        return is_long and self._row_length >= _ROW_OF_SAVED_STEPS

    def _has_bad_witness(self, tensors: StepTensors) -> bool:
        """Whether a loss or a parameter is not finite, even if only gradients were chosen."""
        for tensor in union(tensors, _WITNESSES):
            try:
                if self._is_bad(tensor, tensor.reduction("abs_max")) and not _is_empty(tensor):
                    return True
            except TensorMissing:
                continue
        return False

    def _finding(self, step: int, bad: _Measured, looked_at: int) -> Finding:
        with_nan = [tensor.name for tensor, value in bad if math.isnan(value)]
        with_infinity = [tensor.name for tensor, value in bad if math.isinf(value)]
        exploded = [*with_nan, *with_infinity]
        what = "NaN" if with_nan else "infinity"
        return Finding(
            message=f"{exploded[0]} holds {what} at step {step} "
            f"({len(exploded)} of {looked_at} tensors do; none may)",
            tensor=exploded[0],
            values={
                "with_nan": len(with_nan),
                "with_infinity": len(with_infinity),
                "tensors": looked_at,
            },
            hint="lower the learning rate or clip gradients; with float16 use a gradient scaler; "
            "if it is step 0, look at the input",
        )

    def _may_be_mask(self, tensor: SavedTensor) -> bool:
        is_chosen = bool(self.collection_names or self.tensor_regex)
        return tensor.description.kind == "input" and not is_chosen

    def _largest(self, tensors: Sequence[SavedTensor]) -> list[tuple[SavedTensor, float]]:
        """The largest magnitude of each; of "all" tensors, of each that has one."""
        largest, missing = [], []
        for tensor in tensors:
            try:
                number = tensor.reduction("abs_max")
            except TensorMissing as error:
                missing.append(error)
                continue
            if not (math.isnan(number) and _is_empty(tensor)):
                largest.append((tensor, number))
        # Texts, and tensors of which other reductions were saved, are skipped.
        if missing and (not largest or self.collection_names or self.tensor_regex):
            raise missing[0]
        return largest


def _is_gradient(tensor: SavedTensor) -> bool:
    return tensor.description.kind == "gradient"


def _is_empty(tensor: SavedTensor) -> bool:
    """Whether it has no elements: then NaN only says that there is no largest one."""
    try:
        return tensor.value().size == 0
    except TensorMissing:
        return False
