"""Tanh and Sigmoid far out where they are flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.activity import Activity, few_observations
from stoker.debugging.rules.tensor_choice import (
    COLLECTIONS_HELP,
    REGEX_HELP,
    chosen_needs,
    role_needs,
    union,
)
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid

_DEFAULT_REGEX = ".*tanh_input|.*sigmoid_input"

# Not Hardtanh and its kin: they are flat from ±1 or ±3 on, far inside these limits.
_NEED = Need(
    collection="saturating_input",
    module_classes=("Tanh", "Sigmoid"),
    side="input",
    fallback_regex=_DEFAULT_REGEX,
)


class SaturatedActivation(Rule):
    """Most units of a Tanh or Sigmoid layer get inputs so large that their gradient is zero.

    Fires when more than `threshold_layer` percent of a layer's nodes are saturated. A node is
    active when its input is between the minimum and the maximum, where the gradient is above
    about 1e-7; it is saturated when active in less than `threshold_inactivity` percent of all
    observations so far: a node is every position of the input except in the batch, an
    observation one sample of one step. A layer whose shape changes is counted from the start.

    Looks at the inputs of Tanh and Sigmoid modules, unless `collection_names` or `tensor_regex`
    say which. The limits of Tanh or of Sigmoid count by the module's class, else by the tensor's
    name; where neither tells, the wider ones do.

    It happens when weights or inputs are too large, or the learning rate is too high.

    What usually helps: normalized inputs, normalization before the activation, smaller initial
    weights (Xavier), ReLU or GELU instead.
    """

    collection_names: str | None = parameter(
        None, f"instead of the inputs of Tanh and Sigmoid: {COLLECTIONS_HELP}"
    )
    tensor_regex: str = parameter(
        _DEFAULT_REGEX, f"instead of the inputs of Tanh and Sigmoid: {REGEX_HELP}"
    )
    # The service's numbers: from there on the gradient in float32 is about 1e-7 or less.
    threshold_tanh_min: float = parameter(-9.4999, "below it, an input saturates Tanh")
    threshold_tanh_max: float = parameter(9.4999, "above it, an input saturates Tanh")
    threshold_sigmoid_min: float = parameter(-23.0, "below it, an input saturates Sigmoid")
    threshold_sigmoid_max: float = parameter(16.99999, "above it, an input saturates Sigmoid")
    threshold_inactivity: float = parameter(
        1.0,
        "a node that is active in fewer percent of the observations is saturated",
        minimum=0,
        maximum=100,
    )
    threshold_layer: float = parameter(
        50.0,
        "percentage of saturated nodes above which a layer is reported",
        minimum=0,
        maximum=100,
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._activity = Activity()

    def validate(self) -> None:
        self.needs()  # refuses an expression that cannot be understood
        for name, (low, high) in self._limits().items():
            if not low < high:
                raise RuleInvalid(
                    f"rule SaturatedActivation: threshold_{name}_min {low:g} is not below "
                    f"threshold_{name}_max {high:g}",
                    fix="an input between the two is an active one",
                )

    def needs(self) -> Sequence[Need]:
        by_collection = chosen_needs(self.collection_names, None)
        if by_collection and self.tensor_regex == _DEFAULT_REGEX:
            return by_collection
        return [*by_collection, *role_needs(_NEED, self.tensor_regex)]

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        layers = []
        for tensor in union(tensors, self.needs()):
            low, high = self._limits_of(tensor)
            value = tensor.value()
            layer = self._activity.add(tensor, (value > low) & (value < high))
            saturated = layer.inactive_percent(self.threshold_inactivity)
            layers.append((saturated, tensor.name, layer.observations, low, high))
        if not layers:
            return None
        saturated, name, observations, low, high = max(layers)
        if not saturated > self.threshold_layer:
            return None
        return Finding(
            message=f"{saturated:.4g} % of the nodes of {name} are saturated at step {step}, "
            f"limit {self.threshold_layer:g} % (inside {low:g} to {high:g} in less than "
            f"{self.threshold_inactivity:g} % of {observations} observations)",
            tensor=name,
            values={
                "saturated_percent": saturated,
                "threshold_layer": self.threshold_layer,
                "threshold_inactivity": self.threshold_inactivity,
                "observations": observations,
                "minimum": low,
                "maximum": high,
            },
            hint=few_observations(observations, self.threshold_inactivity)
            or "normalize what goes into this layer, or start with smaller weights",
        )

    def _limits(self) -> dict[str, tuple[float, float]]:
        return {
            "tanh": (self.threshold_tanh_min, self.threshold_tanh_max),
            "sigmoid": (self.threshold_sigmoid_min, self.threshold_sigmoid_max),
        }

    def _limits_of(self, tensor: SavedTensor) -> tuple[float, float]:
        limits = self._limits()
        for text in (tensor.description.module_class.lower(), tensor.name.lower()):
            for name in limits:
                if name in text:
                    return limits[name]
        lows, highs = zip(*limits.values(), strict=True)
        return min(lows), max(highs)
