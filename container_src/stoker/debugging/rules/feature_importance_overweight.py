"""A few features decide everything (XGBoost)."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import chosen_needs, union
from stoker.debugging.step_tensors import StepTensors


class FeatureImportanceOverweight(Rule):
    """A few features decide nearly everything: the model may overfit, or a feature leaks labels.

    Fires when the `nfeatures` most important features have more than `threshold` of the sum of
    all importances. Looks at data that smdebug's hook for XGBoost saved.

    It happens with few useful features, and with one that is not known yet when the model is used.

    What usually helps: to leave such features out, colsample_bytree, stronger regularization.
    """

    threshold: float = parameter(
        0.8, "share of the importance that the first features may have", minimum=0, maximum=1
    )
    nfeatures: int = parameter(3, "how many features to add up", minimum=1)
    tensor_regex: str = parameter(
        ".*feature_importance/weight", "names of the importances, one tensor for each feature"
    )

    def needs(self) -> Sequence[Need]:
        return chosen_needs(None, self.tensor_regex)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        found = union(tensors, self.needs())
        # Every worker has the whole model.
        found = [tensor for tensor in found if tensor.worker == found[0].worker]
        scores = {tensor.name: tensor.reduction("sum") for tensor in found}
        total = sum(scores.values())
        largest = sorted(scores, key=lambda name: -scores[name])[: self.nfeatures]
        share = sum(scores[name] for name in largest) / total if total > 0 else 0.0
        if not share > self.threshold:
            return None
        names = ", ".join(name.rpartition("/")[2] for name in largest)
        return Finding(
            message=f"{names} have {share:.1%} of the importance of the {len(scores)} features in "
            f"use at step {step} (limit {self.threshold:.0%})",
            tensor=largest[0],
            values={"share": share, "threshold": self.threshold, "features": len(scores)},
            hint="look whether these features would be known in production; use colsample_bytree "
            "or stronger regularization",
        )
