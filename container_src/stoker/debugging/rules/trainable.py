"""Which parameters a step can change: none while evaluating, never the frozen ones, and some
biases not at all."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.debugging.step_tensors import SavedTensor, StepTensors

_SHOWN = 3


def is_training(tensors: StepTensors) -> bool:
    """Whether weights change at this step; scripts that never say their mode do train."""
    return tensors.mode not in ("EVAL", "PREDICT")


def leave_out_frozen(tensors: Sequence[SavedTensor]) -> tuple[list[SavedTensor], str]:
    """The tensors that may change, and a note for people about those that never will."""
    frozen = sorted({tensor.name for tensor in tensors if tensor.description.is_frozen})
    rest = [tensor for tensor in tensors if not tensor.description.is_frozen]
    if not frozen:
        return rest, ""
    more = f" and {len(frozen) - _SHOWN} more" if len(frozen) > _SHOWN else ""
    return rest, f"; left out because frozen: {', '.join(frozen[:_SHOWN])}{more}"


def least(gradients: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The smallest of some numbers with the names of their gradients, if it can be of a weight.

    A bias right before a normalization has a gradient of zero in the healthiest network.
    """
    return min(gradients, key=lambda found: (is_of_bias(found[1]), found))


def is_of_bias(gradient_name: str) -> bool:
    return "bias" in gradient_name.rpartition(".")[2]


USELESS_BIAS = (
    "a bias right before a normalization layer never gets a gradient: give that layer bias=False"
)
