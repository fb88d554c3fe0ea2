"""Weights that start too large, too small or all alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.population_variance import VARIANCE
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.losses import mean_loss
from stoker.debugging.rules.tensor_choice import REGEX_HELP, role_needs, union
from stoker.debugging.rules.trainable import USELESS_BIAS, is_of_bias, is_training, least
from stoker.debugging.step_tensors import SavedTensor, StepTensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEFAULT_REGEX = ".*relu_input"

# ReLU and what is used in its place. Not Tanh and Sigmoid: they are often at the output, or
# are gates, whose inputs are of another size by design.
_ACTIVATIONS = Need(
    collection="relu_input",
    module_classes=(
        *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "RReLU", "ELU", "SELU", "CELU"),
        *("GELU", "SiLU", "Mish", "Hardswish", "Softplus"),
    ),
    side="input",
    reductions=VARIANCE,
    fallback_regex=_DEFAULT_REGEX,
)
_GRADIENTS = Need(collection="gradients")
_LOSSES = Need(collection="losses")

_LEAST_ELEMENTS = 20
"""Fewer have no 5th and 95th percentile of their own."""
_SAMPLE = 10_000
_MANY_ELEMENTS = 4 * _SAMPLE


class PoorWeightInitialization(Rule):
    """The weights do not start well: signals grow or shrink from layer to layer.

    Looks at the first saved steps of training only. Fires when one of three conditions holds:
    the largest variance of an activation's input is more than threshold times the smallest one of
    the same step; the 5th and the 95th percentile of a gradient (of 20 elements or more) differ
    by less than `distribution_range`; the loss reached no new minimum for `patience` saved steps.

    Activations are the inputs of ReLU modules and those used in their place (LeakyReLU, GELU,
    SiLU, …), unless `activation_inputs_regex` says which.

    What usually helps: torch.nn.init.kaiming_normal_ for ReLU, xavier_uniform_ for Tanh, biases
    at zero, normalization layers, inputs of mean 0 and variance 1.
    """

    activation_inputs_regex: str = parameter(
        _DEFAULT_REGEX, f"instead of the inputs of ReLU and its kin: {REGEX_HELP}"
    )
    threshold: float = parameter(
        10.0, "largest ratio between the variances of two layers' inputs", minimum=1
    )
    distribution_range: float = parameter(
        0.001, "smallest healthy distance of the 5th and 95th percentile of a gradient", minimum=0
    )
    patience: int = parameter(
        5, "how many saved steps may go by without a new minimum of the loss", minimum=1
    )
    steps: int = parameter(10, "how many saved steps are looked at", minimum=1)

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._steps_seen = 0
        self._best_loss = math.inf
        self._steps_without_better = 0

    def validate(self) -> None:
        self.needs()  # refuses an expression that cannot be understood

    def needs(self) -> Sequence[Need]:
        return [*self._activation_needs(), _GRADIENTS, _LOSSES]

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        if self._steps_seen >= self.steps or not is_training(tensors):
            return None
        inputs = union(tensors, self._activation_needs())
        gradients = tensors.needed(_GRADIENTS)
        # Losses may be saved more often than the rest: such a step tells nothing of the weights.
        if not inputs and not gradients:
            return None
        self._steps_seen += 1
        self._follow_loss(tensors)
        return (
            self._uneven_layers(step, inputs)
            or self._narrow_gradient(step, gradients)
            or self._no_better_loss(step)
        )

    def _activation_needs(self) -> list[Need]:
        return role_needs(_ACTIVATIONS, self.activation_inputs_regex)

    def _follow_loss(self, tensors: StepTensors) -> None:
        loss = mean_loss(tensors.needed(_LOSSES))
        if loss is None:
            return
        # A loss of NaN never counts as a minimum: comparisons with it are false.
        is_better = loss < self._best_loss
        self._best_loss = loss if is_better else self._best_loss
        self._steps_without_better = 0 if is_better else self._steps_without_better + 1

    def _uneven_layers(self, step: int, inputs: Sequence[SavedTensor]) -> Finding | None:
        variances = [(tensor.reduction("variance"), tensor.name) for tensor in inputs]
        numbers = [found for found in variances if not math.isnan(found[0])]
        if not numbers:
            return None
        (smallest, low), (largest, high) = min(numbers), max(numbers)
        # Not as a quotient: the smallest may be zero.
        if not largest > self.threshold * smallest:
            return None
        return Finding(
            message=f"variance of {high} is {largest:.3g} at step {step}, more than "
            f"{self.threshold:g} times that of {low}, {smallest:.3g}",
            tensor=high,
            values={"largest": largest, "smallest": smallest, "threshold": self.threshold},
            hint="initialize each layer by its number of inputs (kaiming_normal_), or normalize",
        )

    def _narrow_gradient(self, step: int, gradients: Sequence[SavedTensor]) -> Finding | None:
        widths = [(_width(t, self.distribution_range), t.name) for t in gradients]
        narrow = [found for found in widths if found[0] < self.distribution_range]
        if not narrow:
            return None
        width, name = least(narrow)
        return Finding(
            message=f"5th and 95th percentile of {name} differ by {width:.3g} at step {step}, "
            f"less than {self.distribution_range:g} ({len(narrow)} of {len(widths)} gradients)",
            tensor=name,
            values={"range": width, "distribution_range": self.distribution_range},
            hint=USELESS_BIAS
            if is_of_bias(name)
            else "weights that start too small, or all alike, give every unit the same gradient",
        )

    def _no_better_loss(self, step: int) -> Finding | None:
        if self._steps_without_better < self.patience:
            return None
        return Finding(
            message=f"the loss reached no new minimum below {self._best_loss:.6g} for "
            f"{self._steps_without_better} saved steps up to step {step}, limit {self.patience}",
            values={
                "best_loss": self._best_loss,
                "steps_without_better": self._steps_without_better,
                "patience": self.patience,
            },
            hint="if it is not the initialization, it is the learning rate",
        )


def _width(gradient: SavedTensor, enough: float) -> float:
    """Between the 5th and the 95th percentile; infinite where it is enough, or there are none."""
    value = gradient.value().reshape(-1)
    if value.size < _LEAST_ELEMENTS or value.dtype.kind == "c":  # complex: no order
        return math.inf
    with np.errstate(all="ignore"):
        if value.size >= _MANY_ELEMENTS and is_surely_wide(value, enough):
            return math.inf
        low, high = np.percentile(value, (5, 95))
        return float(high - low)


def is_surely_wide(value: NDArray[Any], width: float) -> bool:
    """Whether two percentiles are so far apart, where that is known without sorting.

    A few elements tell two limits that are far enough apart; if enough of all elements lie beyond
    them, so do the percentiles. That is exact; only a no may be wrong.
    """
    low, high = np.percentile(value[:: value.size // _SAMPLE], (10, 90))
    if not high - low >= width:
        return False
    enough = 0.05 * value.size + 1
    return bool(
        np.count_nonzero(value <= low) > enough and np.count_nonzero(value >= high) > enough
    )
