"""Tensors that spread too far, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.debugging.need import Need
from stoker.debugging.population_variance import VARIANCE
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import (
    COLLECTIONS_HELP,
    REGEX_HELP,
    chosen_needs,
    require_choice,
    union,
)
from stoker.debugging.step_tensors import StepTensors
from stoker.errors import RuleInvalid


class TensorVariance(Rule):
    """The values of a tensor spread too far or too little.

    Fires when the variance of any chosen tensor is above `max_threshold` or below `min_threshold`,
    whichever is set. It is the variance of all its elements, numpy.var.

    Weights or activations of a very large variance saturate what follows them and lead to
    exploding gradients; those of almost none carry no information, and units that are all alike
    stay alike.

    What usually helps: an initialization that fits the number of inputs, normalization layers,
    input data that are normalized.
    """

    collection_names: str | None = parameter(None, COLLECTIONS_HELP)
    tensor_regex: str | None = parameter(None, REGEX_HELP)
    max_threshold: float | None = parameter(None, "largest variance that is healthy", minimum=0)
    min_threshold: float | None = parameter(None, "smallest variance that is healthy", minimum=0)

    def validate(self) -> None:
        require_choice("TensorVariance", self.collection_names, self.tensor_regex)
        low, high = self.min_threshold, self.max_threshold
        if low is None and high is None:
            raise RuleInvalid(
                "rule TensorVariance can never fire: "
                "neither max_threshold nor min_threshold is set",
                fix="set one of them or both, such as max_threshold=10",
            )
        if low is not None and high is not None and low > high:
            raise RuleInvalid(
                f"rule TensorVariance would always fire: min_threshold {low:g} is above "
                f"max_threshold {high:g}",
                fix="what is between them is healthy: min_threshold is the smaller one",
            )

    def needs(self) -> Sequence[Need]:
        return chosen_needs(self.collection_names, self.tensor_regex, reductions=VARIANCE)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        for tensor in union(tensors, self.needs()):
            variance = tensor.reduction("variance")
            if self.max_threshold is not None and variance > self.max_threshold:
                return _finding(step, tensor.name, variance, "above", self.max_threshold)
            if self.min_threshold is not None and variance < self.min_threshold:
                return _finding(step, tensor.name, variance, "below", self.min_threshold)
        return None


def _finding(step: int, name: str, variance: float, side: str, limit: float) -> Finding:
    return Finding(
        message=f"variance of {name} is {variance:.3g} at step {step}, {side} {limit:g}",
        tensor=name,
        values={"variance": variance, "threshold": limit},
        hint="look at the initialization of this layer and at the scale of its input",
    )
