"""Tensors of zeros."""

from __future__ import annotations

from collections.abc import Sequence

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
from stoker.debugging.step_tensors import SavedTensor, StepTensors

_ALL = 100.0


class AllZero(Rule):
    """All values of a tensor are zero, or more of them than should be.

    Fires when the share of exact zeros in any chosen tensor is at least the threshold.

    Weights that start at zero, and units that are never active, get no gradient: they will not
    learn. Biases do start at zero, and that is not a fault.

    What usually helps: a random initialization of weights, LeakyReLU instead of ReLU, a lower
    learning rate; for gradients of zero, a look at whether the loss depends on that parameter
    at all.
    """

    collection_names: str | None = parameter(None, COLLECTIONS_HELP)
    tensor_regex: str | None = parameter(None, REGEX_HELP)
    threshold: float = parameter(
        _ALL, "share of zeros at which it fires, in percent", minimum=0, maximum=_ALL
    )

    def validate(self) -> None:
        require_choice("AllZero", self.collection_names, self.tensor_regex)

    def needs(self) -> Sequence[Need]:
        # Whether all are zero can be seen from the largest; how many are, only from the values.
        enough = ("abs_max",) if self.threshold >= _ALL else ()
        return chosen_needs(self.collection_names, self.tensor_regex, reductions=enough)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        shares = [(self._zero_percent(t), t) for t in union(tensors, self.needs())]
        reached = [(share, tensor) for share, tensor in shares if share >= self.threshold]
        if not reached:
            return None
        # Of several, one that is more than a bias at its start.
        share, worst = max(
            reached, key=lambda found: (found[1].description.kind != "bias", found[0])
        )
        return Finding(
            message=f"{share:.4g} % of {worst.name} is zero at step {step}, limit "
            f"{self.threshold:g} % ({len(reached)} of {len(shares)} tensors)",
            tensor=worst.name,
            values={
                "zero_percent": share,
                "threshold": self.threshold,
                "reached": len(reached),
                "tensors": len(shares),
            },
            hint=_hint(worst),
        )

    def _zero_percent(self, tensor: SavedTensor) -> float:
        """The share of zeros; NaN, which is never enough, of a tensor without elements."""
        if self.threshold >= _ALL:
            largest = tensor.reduction("abs_max")
            return _ALL if largest == 0 else float("nan")
        value = tensor.value()
        zeros = value.size - int(np.count_nonzero(value))
        return _ALL * zeros / value.size if value.size else float("nan")


def _hint(tensor: SavedTensor) -> str:
    if tensor.description.kind == "bias":
        return "biases start at 0: only one that stays there after some steps is a fault"
    return "weights need a random start; for a gradient, see whether the loss depends on it"
