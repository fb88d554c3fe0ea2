"""Labels and predictions as class numbers, of whichever loss."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.debugging.description import Description
from stoker.debugging.rules.class_labels import class_pairs, labels_need, predictions_need
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run

NEEDS = (
    labels_need("labels", regex=".*labels", default=".*labels"),
    predictions_need("predictions", regex=".*predictions", default=".*predictions"),
)


def given_to(loss_class: str, predictions, labels) -> Run:
    return given_to_all({loss_class: (predictions, labels)})


def given_to_all(losses: dict[str, tuple]) -> Run:
    """Loss class → its two inputs at step 0, described as the hook does."""
    tensors = {
        Description(
            name=f"{loss_class}_input_{position}",
            kind="input",
            module_class=loss_class,
            position=position,
            is_of_loss=True,
        ): np.array(value)
        for loss_class, inputs in losses.items()
        for position, value in enumerate(inputs)
    }
    run = Run(descriptions=list(tensors))
    return run.save(0, {described.name: value for described, value in tensors.items()})


def classes(run: Run, **options) -> dict[str, tuple[list[int], list[int]]]:
    found = class_pairs(run.at(0), *NEEDS, **options)
    return {pair.name: (pair.labels.tolist(), pair.predictions.tolist()) for pair in found}


def test_the_classes_of_cross_entropy_are_on_axis_1():
    run = given_to("CrossEntropyLoss", [[1.0, 2.0, 0.0], [3.0, 2.0, 1.0]], [1, 2])
    assert classes(run) == {"CrossEntropyLoss": ([1, 2], [1, 0])}


def test_a_functional_loss_is_one_too():
    run = given_to("nll_loss", [[-0.1, -3.0], [-2.0, -0.2]], [0, 0])
    assert classes(run) == {"nll_loss": ([0, 0], [0, 1])}


def test_pixels_are_samples_and_ignored_ones_do_not_count():
    logits = np.zeros((1, 2, 2, 2))  # as many classes as pixels in a row
    logits[0, 1, 0, :] = 1
    run = given_to("CrossEntropyLoss", logits, [[[1, 0], [-100, 0]]])
    assert classes(run) == {"CrossEntropyLoss": ([1, 0, 0], [1, 1, 0])}


def test_one_sample_without_a_batch():
    run = given_to("CrossEntropyLoss", [0.1, 0.7, 0.2], 1)
    assert classes(run) == {"CrossEntropyLoss": ([1], [1])}


def test_labels_may_be_probabilities():
    run = given_to("CrossEntropyLoss", [[1.0, 2.0], [3.0, 2.0]], [[0.9, 0.1], [0.8, 0.2]])
    assert classes(run) == {"CrossEntropyLoss": ([0, 0], [1, 0])}


@pytest.mark.parametrize("loss", ["BCEWithLogitsLoss", "binary_cross_entropy_with_logits"])
def test_logits_of_two_classes_are_told_by_their_sign(loss):
    run = given_to(loss, [[0.2], [-0.2], [2.0]], [[1.0], [0.0], [0.0]])
    assert classes(run) == {loss: ([1, 0, 0], [1, 0, 1])}


@pytest.mark.parametrize("loss", ["BCELoss", "binary_cross_entropy"])
def test_probabilities_of_two_classes_are_told_by_the_half(loss):
    run = given_to(loss, [0.2, 0.6, 0.51], [1.0, 0.0, 1.0])
    assert classes(run) == {loss: ([1, 0, 1], [0, 1, 1])}


def test_several_labels_a_sample_are_samples_of_two_classes():
    run = given_to("BCEWithLogitsLoss", [[1.0, -1.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    assert classes(run) == {"BCEWithLogitsLoss": ([1, 0, 0, 1], [1, 0, 1, 1])}


def test_named_tensors_may_hold_class_numbers_or_probabilities():
    assert classes(Run().save(0, {"labels": [2.0, 0.0], "predictions": [2.0, 1.0]})) == {
        "predictions": ([2, 0], [2, 1])
    }
    assert classes(Run().save(0, {"labels": [1.0, 0.0], "predictions": [0.7, 0.6]})) == {
        "predictions": ([1, 0], [1, 1])
    }


def test_named_tensors_may_have_the_classes_last():
    probabilities = np.zeros((1, 3, 2))
    probabilities[..., 1] = 1
    run = Run().save(0, {"labels": [[0, 1, 0]], "predictions": probabilities})
    assert classes(run) == {"predictions": ([0, 1, 0], [1, 1, 1])}


def test_the_inputs_of_a_loss_come_before_names():
    run = given_to("CrossEntropyLoss", [[1.0, 0.0]], [0]).save(0, {"labels": [1, 1, 1]})
    assert list(classes(run)) == ["CrossEntropyLoss"]


def test_the_samples_of_all_workers_are_taken_together():
    run = Run().save(0, {"labels": [0], "predictions": [0]})
    run.save(0, {"labels": [1, 1], "predictions": [0, 1]}, worker="worker_1")
    assert classes(run) == {"predictions": ([0, 1, 1], [0, 0, 1])}


def test_a_loss_whose_predictions_are_not_there_does_not_get_those_of_another():
    run = given_to("NLLLoss", [[1.0, 0.0]], [0])
    run.save(0, {"ALoss_input_1": [1]})
    assert classes(run) == {"NLLLoss": ([0], [0])}


def test_a_regression_next_to_the_classification_is_left_out():
    run = given_to_all({"CrossEntropyLoss": ([[1.0, 0.0]], [0]), "MSELoss": ([[1.5]], [[0.25]])})
    assert list(classes(run)) == ["CrossEntropyLoss"]


@pytest.mark.parametrize("labels", [[[0.25]], [[1e9]], [[np.nan]], [[np.inf]]])
def test_a_regression_alone_is_an_error(labels):
    with pytest.raises(RuleInvalid, match="MSELoss_input_1 holds no class numbers, but"):
        classes(given_to("MSELoss", [[1.5]], labels))


def test_what_does_not_fit_is_an_error():
    run = Run().save(0, {"labels": [0, 1, 2], "predictions": [0, 1]})
    with pytest.raises(RuleInvalid, match="labels holds 3 labels and predictions 1 predictions"):
        classes(run)


def test_predictions_that_are_not_numbers_are_wrong_ones():
    run = given_to("BCEWithLogitsLoss", [np.nan, np.nan], [1.0, 0.0])
    assert classes(run) == {"BCEWithLogitsLoss": ([1, 0], [0, 0])}
