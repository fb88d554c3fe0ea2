"""Gradients so small that nothing is learned from them."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.trainable import USELESS_BIAS, is_of_bias, least
from stoker.debugging.step_tensors import StepTensors

_NEED = Need(collection="gradients", reductions=("abs_mean",))


class VanishingGradient(Rule):
    """The gradient of a parameter is (almost) zero, so that the parameter is not trained.

    Fires when the mean of |gradient| of any parameter is below the threshold; never at step 0.

    It happens in deep networks with Tanh or Sigmoid, behind ReLUs that are never active, with
    weights that start too small, and with 16-bit gradients that underflow. The layers near the
    input suffer first. The bias of a layer right before a normalization has no gradient by
    design: give such a layer `bias=False`.

    Gradients are those of the backward pass. A gradient scaler (torch.amp.GradScaler)
    multiplies them by its scale, often 65536, and accumulation adds several up: raise the
    threshold by as much.

    What usually helps: ReLU or GELU instead of Tanh and Sigmoid, normalization layers, residual
    connections, an initialization that fits the activation, a gradient scaler with float16.
    """

    threshold: float = parameter(1e-7, "smallest mean of |gradient| that is healthy", minimum=0)

    def needs(self) -> Sequence[Need]:
        return [_NEED]

    def least_steps(self) -> int:
        return 2  # step 0 is saved first, and never counts

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        # The service's rule never fires there: its configuration of 2019 says so.
        if step == 0:
            return None
        means = [(tensor.reduction("abs_mean"), tensor.name) for tensor in tensors.needed(_NEED)]
        low = [(mean, name) for mean, name in means if mean < self.threshold]
        if not low:
            return None
        mean, name = least(low)
        return Finding(
            message=f"mean of |{name}| is {mean:.3g} at step {step}, below "
            f"{self.threshold:g} ({len(low)} of {len(means)} gradients are)",
            tensor=name,
            values={
                "abs_mean": mean,
                "threshold": self.threshold,
                "vanished": len(low),
                "gradients": len(means),
            },
            hint=USELESS_BIAS
            if is_of_bias(name)
            else "look at the initialization and the activations before this layer; "
            "normalization and residual connections keep gradients alive",
        )
