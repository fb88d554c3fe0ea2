"""The confusion matrix of a step is not good enough."""

from __future__ import annotations

from collections.abc import Sequence

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
from stoker.errors import RuleInvalid

_LABELS, _PREDICTIONS = "labels", "predictions"


class Confusion(Rule):
    """The confusion matrix of a step is not good enough: classes are taken for one another.

    Fires when less than `min_diag` of a class's samples are predicted right (matrix[i][i] / sum of
    row i, where matrix[i][j] counts samples of class i predicted as j), or when more than
    `max_off_diag` of what is predicted as a class belongs to one other (matrix[j][i] / sum of
    column i). Classes that do not occur are left out. Each step is evaluated alone. Looks at
    what the losses get: predictions first, labels second. Both are saved whole, which is much for
    the logits of a large vocabulary.

    It happens at the beginning of every training, with classes that look alike, and with wrong
    labels.

    What usually helps: to look at samples of the classes that are mixed up, and at their labels.
    """

    category_no: int | None = parameter(
        None, "number of classes; not set: the highest one seen", minimum=2
    )
    labels: str = parameter(_LABELS, "names of the labels")
    predictions: str = parameter(_PREDICTIONS, "names of the predictions")
    labels_collection: str = parameter(_LABELS, "collection of the labels")
    predictions_collection: str = parameter(_PREDICTIONS, "collection of the predictions")
    min_diag: float = parameter(
        0.9, "the least share of a class that must be predicted right", minimum=0, maximum=1
    )
    max_off_diag: float = parameter(
        0.1,
        "the largest share of the predictions of a class that may belong to another",
        minimum=0,
        maximum=1,
    )

    def needs(self) -> Sequence[Need]:
        return [self._labels_need(), self._predictions_need()]

    def _labels_need(self) -> Need:
        if self.labels == _LABELS and self.labels_collection != _LABELS:
            return Need(collection=self.labels_collection)
        return labels_need(self.labels_collection, regex=self.labels, default=_LABELS)

    def _predictions_need(self) -> Need:
        if self.predictions == _PREDICTIONS and self.predictions_collection != _PREDICTIONS:
            return Need(collection=self.predictions_collection)
        return predictions_need(
            self.predictions_collection, regex=self.predictions, default=_PREDICTIONS
        )

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        for pairs in class_pairs(tensors, *self.needs()):
            if pairs.labels.size:
                self._refuse_more_categories(pairs)
                finding = self._diagonal(step, pairs) or self._off_diagonal(step, pairs)
                if finding:
                    return finding
        return None

    def _refuse_more_categories(self, pairs: ClassPairs) -> None:
        highest = int(max(pairs.labels.max(), pairs.predictions.max()))
        if self.category_no is not None and highest >= self.category_no:
            raise RuleInvalid(
                f"{pairs.name} holds the class {highest}, but category_no is {self.category_no}",
                fix=f"set category_no to {highest + 1} or more, or leave it out",
            )

    def _diagonal(self, step: int, pairs: ClassPairs) -> Finding | None:
        rows = np.bincount(pairs.labels)
        right = np.bincount(pairs.labels[pairs.labels == pairs.predictions], minlength=rows.size)
        shares = np.where(rows > 0, right / np.maximum(rows, 1), 1)
        worst = int(shares.argmin())
        share = float(shares[worst])
        if share >= self.min_diag:
            return None
        return Finding(
            message=f"{share:.1%} of the {rows[worst]} samples of class {worst} are predicted "
            f"right in {pairs.predictions_tensor} at step {step} (limit {self.min_diag:.0%})",
            tensor=pairs.predictions_tensor,
            values={"share": share, "min_diag": self.min_diag, "class": worst},
            hint="look at samples of that class, at their labels and at how many there are",
        )

    def _off_diagonal(self, step: int, pairs: ClassPairs) -> Finding | None:
        # Only the cells that hold something: a vocabulary's matrix would not fit in memory.
        columns = np.bincount(pairs.predictions)
        is_wrong = pairs.labels != pairs.predictions
        wrong = np.stack([pairs.labels[is_wrong], pairs.predictions[is_wrong]])
        cells, counts = np.unique(wrong, axis=1, return_counts=True)
        shares = counts / columns[cells[1]]
        worst = int(shares.argmax()) if shares.size else -1
        share = float(shares[worst]) if shares.size else 0.0
        if share <= self.max_off_diag:
            return None
        label, prediction = (int(number) for number in cells[:, worst])
        return Finding(
            message=f"{share:.1%} of what is predicted as class {prediction} is of class {label} "
            f"in {pairs.predictions_tensor} at step {step} (limit {self.max_off_diag:.0%})",
            tensor=pairs.predictions_tensor,
            values={
                "share": share,
                "max_off_diag": self.max_off_diag,
                "label": label,
                "prediction": prediction,
            },
            hint="look at samples of these two classes, and at their labels",
        )
