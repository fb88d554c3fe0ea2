"""Labels and predictions of a step as class numbers, whichever loss they were given to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rules.tensor_choice import chosen_needs
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]
    Classes = NDArray[np.int64]

_MOST_CLASSES = 1 << 20
"""More than any vocabulary. Larger numbers are amounts, not classes."""
# Losses of two classes, with one prediction a sample: a logit or a probability.
_BINARY_WITH_LOGITS = ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
_BINARY = (*_BINARY_WITH_LOGITS, "BCELoss", "binary_cross_entropy")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassPairs:
    """The labels of some samples, and what was predicted for them; both flat, whole numbers."""

    name: str
    """Of the loss they belong to, or of the predictions."""
    labels_tensor: str
    predictions_tensor: str
    labels: Classes
    predictions: Classes


def labels_need(collection: str, *, regex: str, default: str) -> Need:
    """The labels: what the user's expression names, else what losses get as their second input."""
    return _input_of_loss(collection, 1, regex=regex, default=default)


def predictions_need(collection: str, *, regex: str, default: str) -> Need:
    """The predictions: what the user's expression names, else the first input of losses."""
    return _input_of_loss(collection, 0, regex=regex, default=default)


def _input_of_loss(collection: str, position: int, *, regex: str, default: str) -> Need:
    if regex != default:
        named = chosen_needs(None, regex)
        return Need(collection=collection, regex="|".join(need.regex for need in named))
    return Need(
        collection=collection,
        of_loss=True,
        side="input",
        position=position,
        fallback_regex=default,
    )


def class_pairs(
    tensors: StepTensors, labels: Need, predictions: Need, *, argmax: bool = False
) -> list[ClassPairs]:
    """The pairs of a step, one entry for each loss; those of all workers together.

    Args:
        tensors: the step.
        labels: which tensors hold the labels.
        predictions: which hold the predictions.
        argmax: predictions are probabilities of classes even where their shape does not show it.

    Raises:
        RuleInvalid: there are labels, but they are not class numbers, or do not fit.
    """
    pairs: dict[str, list[ClassPairs]] = {}
    refused: RuleInvalid | None = None
    for label, prediction in _together(tensors.needed(labels), tensors.needed(predictions)):
        try:
            pair = _classes(label, prediction, argmax=argmax)
            pairs.setdefault(pair.name, []).append(pair)
        except RuleInvalid as error:  # such as a regression next to the classification
            refused = error
    # One loss of several may be a regression; only where all of them are, the rule cannot work.
    if refused and not pairs:
        raise refused
    return [_joined(of_workers) for of_workers in pairs.values()]


def _joined(pairs: Sequence[ClassPairs]) -> ClassPairs:
    return replace(
        pairs[0],
        labels=np.concatenate([pair.labels for pair in pairs]),
        predictions=np.concatenate([pair.predictions for pair in pairs]),
    )


def _together(
    labels: Sequence[SavedTensor], predictions: Sequence[SavedTensor]
) -> Iterator[tuple[SavedTensor, SavedTensor]]:
    """Those of the same loss and worker; tensors with names of their own in order of the names."""
    by_loss = {(_loss_of(tensor), tensor.worker): tensor for tensor in predictions}
    twins = [(tensor, by_loss.get((_loss_of(tensor), tensor.worker))) for tensor in labels]
    of_losses = [(tensor, twin) for tensor, twin in twins if twin is not None]
    if of_losses:
        yield from of_losses
        return
    for worker in sorted({tensor.worker for tensor in labels}):
        yield from zip(
            (tensor for tensor in labels if tensor.worker == worker),
            (tensor for tensor in predictions if tensor.worker == worker),
            strict=False,
        )


def _loss_of(tensor: SavedTensor) -> str:
    return re.sub(r"_input_\d+$", "", tensor.name)


def _classes(label: SavedTensor, prediction: SavedTensor, *, argmax: bool) -> ClassPairs:
    labels, predictions = label.value(), prediction.value()
    loss_class = prediction.description.module_class
    axis = _class_axis(prediction, predictions, labels)
    if loss_class not in _BINARY and _are_one_hot(labels, predictions, axis):
        labels, predictions = labels.argmax(axis), predictions.argmax(axis)
    elif loss_class in _BINARY or (labels.size == predictions.size and not argmax):
        predictions = _binary(predictions, is_logits=loss_class in _BINARY_WITH_LOGITS)
    elif predictions.size:
        predictions = predictions.argmax(axis)
    labels, predictions = labels.reshape(-1), predictions.reshape(-1)
    if labels.size != predictions.size:
        raise RuleInvalid(
            f"{label.name} holds {labels.size} labels and {prediction.name} {predictions.size} "
            "predictions",
            fix="name the tensors that belong together",
        )
    known = ~(labels < 0)  # -100 and the like mean: not to be counted
    return ClassPairs(
        name=_loss_of(prediction),
        labels_tensor=label.name,
        predictions_tensor=prediction.name,
        labels=_class_numbers(label, labels[known]),
        predictions=_class_numbers(prediction, predictions[known]),
    )


def _class_axis(tensor: SavedTensor, predictions: Numbers, labels: Numbers) -> int:
    """PyTorch's losses have the classes on axis 1, right after the samples."""
    is_last = predictions.ndim > 1 and labels.shape == predictions.shape[:-1]
    if is_last and not tensor.description.is_of_loss:
        return predictions.ndim - 1
    return min(1, max(0, predictions.ndim - 1))


def _are_one_hot(labels: Numbers, predictions: Numbers, axis: int) -> bool:
    """Labels may be probabilities themselves: one-hot, smoothed or mixed."""
    is_alike = labels.shape == predictions.shape and labels.ndim > 1 and labels.shape[axis] > 1
    with np.errstate(all="ignore"):  # amounts of a regression may be of any size
        return is_alike and bool(np.allclose(labels.sum(axis, dtype=np.float64), 1, atol=1e-3))


def _binary(predictions: Numbers, *, is_logits: bool) -> Numbers:
    """Class numbers as they are; logits and probabilities by which side they are on."""
    if is_logits:
        return predictions > 0
    is_whole = np.array_equal(predictions, np.round(predictions))
    return predictions if is_whole else predictions > 0.5


def _class_numbers(tensor: SavedTensor, values: Numbers) -> Classes:
    numbers = values.astype(np.float64)  # the limit is beyond what float16 and bytes can hold
    is_class = (numbers >= 0) & (numbers < _MOST_CLASSES) & (numbers == np.round(numbers))
    if not is_class.all():
        raise RuleInvalid(
            f"{tensor.name} holds no class numbers, but {numbers[~is_class][0]:.6g}",
            fix="the rule is for classification: name the labels and predictions, or leave it out",
        )
    return values.astype(np.int64)
