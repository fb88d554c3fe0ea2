"""The rules of SageMaker Debugger, by the names that its API gives them.

`CATALOGUE["VanishingGradient"]` is a class; its file is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stoker.debugging.catalogue import Catalogue

if TYPE_CHECKING:
    from stoker.debugging.rule import Rule

__all__ = ["CATALOGUE"]

# Name of the class → module of this package.
# Names, parameters and defaults are the service's; decision 30 lists where a rule differs on
# purpose.
_MODULES = {
    "AllZero": "all_zero",
    "CheckInputImages": "check_input_images",
    "ClassImbalance": "class_imbalance",
    "Confusion": "confusion",
    "DeadRelu": "dead_relu",
    "ExplodingTensor": "exploding_tensor",
    "FeatureImportanceOverweight": "feature_importance_overweight",
    "LossNotDecreasing": "loss_not_decreasing",
    "NLPSequenceRatio": "nlp_sequence_ratio",
    "Overfit": "overfit",
    "Overtraining": "overtraining",
    "PoorWeightInitialization": "poor_weight_initialization",
    "SaturatedActivation": "saturated_activation",
    "SimilarAcrossRuns": "similar_across_runs",
    "StalledTrainingRule": "stalled_training",
    "TensorVariance": "tensor_variance",
    "TreeDepth": "tree_depth",
    "UnchangedTensor": "unchanged_tensor",
    "VanishingGradient": "vanishing_gradient",
    "WeightUpdateRatio": "weight_update_ratio",
}

CATALOGUE: Mapping[str, type[Rule]] = Catalogue(__name__, _MODULES)
