"""NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


class ExplodingTensor(Rule):
    """A tensor holds NaN or infinity: from here on the training computes nothing of use.

    Fires when any element of any tensor is NaN or ±infinity. Looks at every tensor that is saved,
    unless `collection_names` or `tensor_regex` say which; with both, at all that either names.
    Of the inputs of modules, infinity counts only where they are named so: the masks of attention
    are made of it, and an infinity that was computed shows in an output, too.

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

    def validate(self) -> None:
        self.needs()  # refuses an expression that cannot be understood

    def needs(self) -> Sequence[Need]:
        # The largest |value| tells it all: NaN if there is any NaN, else infinity if there is any.
        return chosen_or_all_needs(
            self.collection_names, self.tensor_regex, reductions=("abs_max",)
        )

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        largest = self._largest(union(tensors, self.needs()))
        with_nan = [tensor.name for tensor, value in largest if math.isnan(value)]
        with_infinity = [
            tensor.name
            for tensor, value in largest
            if math.isinf(value) and not self._may_be_mask(tensor)
        ]
        exploded = with_nan if self.only_nan else with_nan + with_infinity
        if not exploded:
            return None
        what = "NaN" if with_nan else "infinity"
        return Finding(
            message=f"{exploded[0]} holds {what} at step {step} "
            f"({len(exploded)} of {len(largest)} tensors do; none may)",
            tensor=exploded[0],
            values={
                "with_nan": len(with_nan),
                "with_infinity": len(with_infinity),
                "tensors": len(largest),
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
        # Texts, and tensors of which other reductions were saved, are no reason to give up.
        if missing and (not largest or self.collection_names or self.tensor_regex):
            raise missing[0]
        return largest


def _is_empty(tensor: SavedTensor) -> bool:
    """Whether it has no elements: then NaN only says that there is no largest one."""
    try:
        return tensor.value().size == 0
    except TensorMissing:
        return False
