"""The trees grow too deep (XGBoost)."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.step_tensors import StepTensors


class TreeDepth(Rule):
    """The trees grow deeper than is wanted: deep trees learn noise and take long to evaluate.

    Fires when the depth is above `depth`. It follows from the largest node number as in a full
    tree: the root is 0, its children 1 and 2, and depth d begins with number 2^d - 1. Looks at
    data that smdebug's hook for XGBoost saved.

    It happens with a large max_depth, or where splits cost nothing.

    What usually helps: a smaller max_depth, a larger gamma or min_child_weight.
    """

    depth: int = parameter(4, "how deep a tree may be", minimum=0)

    def needs(self) -> Sequence[Need]:
        return [Need(collection="trees", regex="^trees/Node$")]

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        for tensor in tensors.needed(*self.needs()):
            nodes = tensor.value()
            nodes = nodes[np.isfinite(nodes)]
            if not nodes.size:
                continue
            largest = int(nodes.max())
            # The whole part of log2(largest + 1), without the rounding of floats.
            depth = (largest + 1).bit_length() - 1
            if depth > self.depth:
                return Finding(
                    message=f"the tree of step {step} has nodes up to number {largest}, which is "
                    f"depth {depth} (limit {self.depth})",
                    tensor=tensor.name,
                    values={"depth": depth, "limit": self.depth, "largest_node": largest},
                    hint="lower max_depth, or raise gamma or min_child_weight",
                )
        return None
