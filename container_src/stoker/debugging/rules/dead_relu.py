"""ReLUs that are never active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.activity import Activity, few_observations
from stoker.debugging.rules.tensor_choice import REGEX_HELP, role_needs, union
from stoker.debugging.step_tensors import StepTensors

_DEFAULT_REGEX = ".*relu_output"

# The activations that are exactly zero for every negative input.
_NEED = Need(
    collection="relu_output",
    module_classes=("ReLU", "ReLU6"),
    side="output",
    fallback_regex=_DEFAULT_REGEX,
)


class DeadRelu(Rule):
    """Most units of a ReLU layer are never active: they pass nothing on and get no gradient.

    Fires when more than `threshold_layer` percent of a layer's nodes are dead. A node is dead when
    its output is above 0 in less than `threshold_inactivity` percent of all observations so far: a
    node is every position of the output except in the batch, an observation one sample of one
    step. A layer whose shape changes from step to step is counted from the start each time.

    Looks at the outputs of ReLU and ReLU6 modules, unless `tensor_regex` says which.

    It happens when one large step, by a learning rate that is too high, pushes the biases far
    below zero: a ReLU that died there does not come back.

    What usually helps: a lower learning rate, LeakyReLU or GELU, normalization before the
    activation, an initialization made for ReLU (He).
    """

    tensor_regex: str = parameter(
        _DEFAULT_REGEX, f"instead of the outputs of ReLU modules: {REGEX_HELP}"
    )
    threshold_inactivity: float = parameter(
        1.0,
        "a node that is active in fewer percent of the observations is dead",
        minimum=0,
        maximum=100,
    )
    threshold_layer: float = parameter(
        50.0, "percentage of dead nodes above which a layer is reported", minimum=0, maximum=100
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._activity = Activity()

    def validate(self) -> None:
        self.needs()  # refuses an expression that cannot be understood

    def needs(self) -> Sequence[Need]:
        return role_needs(_NEED, self.tensor_regex)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        layers = []
        for tensor in union(tensors, self.needs()):
            layer = self._activity.add(tensor, tensor.value() > 0)
            dead = layer.inactive_percent(self.threshold_inactivity)
            layers.append((dead, tensor.name, layer.observations))
        if not layers:
            return None
        dead, name, observations = max(layers)
        if not dead > self.threshold_layer:
            return None
        return Finding(
            message=f"{dead:.4g} % of the nodes of {name} are dead at step {step}, limit "
            f"{self.threshold_layer:g} % (active in less than {self.threshold_inactivity:g} % of "
            f"{observations} observations)",
            tensor=name,
            values={
                "dead_percent": dead,
                "threshold_layer": self.threshold_layer,
                "threshold_inactivity": self.threshold_inactivity,
                "observations": observations,
            },
            hint=few_observations(observations, self.threshold_inactivity)
            or "lower the learning rate, or use LeakyReLU or GELU",
        )
