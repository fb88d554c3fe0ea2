"""Some classes are much rarer than others, or are hardly ever predicted right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.class_labels import (
    ClassPairs,
    class_pairs,
    labels_need,
    predictions_need,
)
from stoker.debugging.step_tensors import StepTensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LABELS, _PREDICTIONS = ".*labels", ".*predictions"


class ClassImbalance(Rule):
    """Some classes are much rarer than others, or are hardly ever predicted right.

    Fires when the most frequent class has more than `threshold_imbalance` times the labels of the
    rarest, or when more than `threshold_misprediction` of a class's labels were predicted wrong.
    Counts over all steps, and not before `samples` labels were seen. Looks at what the losses
    get: predictions first, labels second. Both are saved whole, which is much for the logits of a
    large vocabulary.

    It happens with data as life gives it: frauds, defects and diseases are rare.

    What usually helps: to sample rare classes more often (WeightedRandomSampler), weights in the
    loss, a metric that minds the classes.
    """

    threshold_imbalance: float = parameter(
        10.0,
        "how many times more labels the most frequent class may have than the rarest",
        minimum=1,
    )
    threshold_misprediction: float = parameter(
        0.7, "which share of a class may be predicted wrong", minimum=0, maximum=1
    )
    samples: int = parameter(500, "labels to see before it evaluates", minimum=1)
    argmax: bool = parameter(
        False,
        "predictions are a probability for each class; found out by itself where the shape tells",
    )
    labels_regex: str = parameter(
        _LABELS, "names of the labels; by default the second input of losses"
    )
    predictions_regex: str = parameter(
        _PREDICTIONS, "names of the predictions; by default the first input of losses"
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._seen: dict[str, _Counts] = {}
        self._steps = 0

    def needs(self) -> Sequence[Need]:
        return [
            labels_need("labels", regex=self.labels_regex, default=_LABELS),
            predictions_need("predictions", regex=self.predictions_regex, default=_PREDICTIONS),
        ]

    def least_steps(self) -> int:
        """As many as the labels take, once it is known how many a step has."""
        most = max((int(counts.labels.sum()) for counts in self._seen.values()), default=0)
        return math.ceil(self.samples * self._steps / most) if most else 1

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        found = class_pairs(tensors, *self.needs(), argmax=self.argmax)
        self._steps += bool(found)
        for pairs in found:
            counts = self._seen.setdefault(pairs.name, _Counts())
            counts.add(pairs.labels, pairs.predictions)
            if counts.labels.sum() >= self.samples:
                finding = self._imbalance(step, pairs, counts)
                finding = finding or self._misprediction(step, pairs, counts)
                if finding:
                    return finding
        return None

    def _imbalance(self, step: int, pairs: ClassPairs, counts: _Counts) -> Finding | None:
        # A number that has not occurred yet is not the rarest class: it may be no class at all.
        seen = np.flatnonzero(counts.labels)
        rarest = int(seen[counts.labels[seen].argmin()])
        largest = int(counts.labels.argmax())
        ratio = float(counts.labels[largest] / counts.labels[rarest])
        if ratio <= self.threshold_imbalance:
            return None
        return Finding(
            message=f"class {largest} has {ratio:.3g} times the labels of class {rarest} at step "
            f"{step}: {counts.labels[largest]} against {counts.labels[rarest]} in "
            f"{pairs.labels_tensor} (limit {self.threshold_imbalance:g})",
            tensor=pairs.labels_tensor,
            values={"ratio": ratio, "threshold_imbalance": self.threshold_imbalance},
            hint="sample rare classes more often (WeightedRandomSampler) or weight the loss",
        )

    def _misprediction(self, step: int, pairs: ClassPairs, counts: _Counts) -> Finding | None:
        shares = counts.wrong / np.maximum(counts.labels, 1)
        worst = int(shares.argmax())
        share = float(shares[worst])
        if share <= self.threshold_misprediction:
            return None
        return Finding(
            message=f"{share:.1%} of the {counts.labels[worst]} samples of class {worst} so far "
            f"are predicted wrong in {pairs.predictions_tensor} at step {step} "
            f"(limit {self.threshold_misprediction:.0%})",
            tensor=pairs.predictions_tensor,
            values={
                "misprediction": share,
                "threshold_misprediction": self.threshold_misprediction,
                "class": worst,
            },
            hint="look at the labels of that class, and at how many there are of it",
        )


class _Counts:
    """Per class: how many labels there were, and how many of them were predicted wrong."""

    def __init__(self) -> None:
        self.labels: NDArray[np.int64] = np.zeros(0, np.int64)
        self.wrong: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, labels: NDArray[np.int64], predictions: NDArray[np.int64]) -> None:
        self.labels = _plus(self.labels, np.bincount(labels))
        self.wrong = _plus(self.wrong, np.bincount(labels[labels != predictions]))
        # As long as the labels, by which _misprediction() divides.
        self.wrong = _plus(self.wrong, np.zeros(self.labels.size, np.int64))


def _plus(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of counts of different lengths."""
    total = np.zeros(max(left.size, right.size), np.int64)
    total[: left.size] += left
    total[: right.size] += right
    return total
