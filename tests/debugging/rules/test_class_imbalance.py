"""ClassImbalance: rare classes, and classes that are hardly ever predicted right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.class_imbalance import ClassImbalance
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE
from tests.debugging.rules.watching import watch


def pairs(*steps: tuple[list[int], list[int]]) -> Run:
    run = Run()
    for step, (labels, predictions) in enumerate(steps):
        run.save(step, {"labels": np.array(labels), "predictions": np.array(predictions)})
    return run


def train(folder, rule: ClassImbalance, rare: int) -> Run:
    """Batches of 100, `rare` of them of class 1; the classes are told apart by one number."""
    torch.manual_seed(0)
    model, loss = nn.Linear(2, 2), nn.CrossEntropyLoss()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels = (torch.arange(100) < rare).long()
    with watch(rule, folder) as run:
        for _ in range(8):
            inputs = torch.randn(100, 2) + 4 * (2 * labels[:, None] - 1)
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()
            optimizer.step()
    return run


def test_a_training_with_a_rare_class_fires_once_500_labels_were_seen(tmp_path):
    rule = ClassImbalance()
    found = judge(rule, train(tmp_path, rule, rare=5))
    assert list(found) == [4, 5, 6, 7]
    assert found[4].message == (
        "class 0 has 19 times the labels of class 1 at step 4: 475 against 25 in "
        "CrossEntropyLoss_input_1 (limit 10)"
    )


def test_a_training_with_balanced_classes_does_not_fire(tmp_path):
    rule = ClassImbalance()
    run = train(tmp_path, rule, rare=40)
    assert len(run.steps()) == 8
    assert fired(rule, run) == []


@pytest.mark.parametrize(
    "loss",
    [
        nn.BCEWithLogitsLoss(),
        lambda *inputs: nn.functional.binary_cross_entropy_with_logits(*inputs),
        lambda logits, labels: nn.functional.binary_cross_entropy(logits.sigmoid(), labels),
    ],
)
def test_losses_of_two_classes_are_understood_as_modules_and_as_functions(tmp_path, loss):
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(0.1)
    rule = ClassImbalance({"samples": "4", "threshold_misprediction": "0.5"})
    with watch(rule, tmp_path) as run:
        right, wrong = [[1.0], [1.0], [-1.0], [-1.0]], [[-1.0]] * 4
        for inputs in (right, wrong, wrong):
            loss(model(torch.tensor(inputs)), torch.tensor([[1.0], [1.0], [0.0], [0.0]]))
    found = judge(rule, run)
    assert list(found) == [2]  # of class 1 first 0 of 2, then 2 of 4, then 4 of 6 were wrong
    assert found[2].values["misprediction"] == pytest.approx(4 / 6)
    assert found[2].values["class"] == 1


def test_990_zeros_and_10_ones_fire_though_all_predictions_are_right():
    labels = [0] * 990 + [1] * 10
    found = judge(ClassImbalance(), pairs((labels, labels)))  # of the tests of 2019
    assert found[0].values["ratio"] == 99


@pytest.mark.parametrize(("threshold", "fires"), [("3", False), ("2.99", True)])
def test_the_imbalance_has_to_be_exceeded(threshold, fires):
    labels = [0, 0, 0, 1]
    rule = ClassImbalance({"samples": "4", "threshold_imbalance": threshold})
    assert bool(fired(rule, pairs((labels, labels)))) is fires


@pytest.mark.parametrize(("threshold", "fires"), [("0.5", False), ("0.49", True)])
def test_the_share_of_wrong_predictions_has_to_be_exceeded(threshold, fires):
    rule = ClassImbalance({"samples": "4", "threshold_misprediction": threshold})
    found = judge(rule, pairs(([0, 0, 1, 1], [0, 0, 1, 2])))
    assert bool(found) is fires
    assert not fires or found[0].values["class"] == 1


@pytest.mark.parametrize(("samples", "steps"), [("4", [0, 1]), ("5", [1]), ("9", [])])
def test_it_evaluates_once_there_are_enough_labels_over_all_steps(samples, steps):
    step = ([0, 0, 0, 1], [0, 0, 0, 1])
    rule = ClassImbalance({"samples": samples, "threshold_imbalance": "2"})
    assert fired(rule, pairs(step, step)) == steps


def test_how_many_steps_it_needs_follows_from_the_labels_of_a_step():
    rule = ClassImbalance({"samples": "9"})
    assert rule.least_steps() == 1
    assert fired(rule, pairs(*[([0, 1, 0, 1], [0, 1, 0, 1])] * 2)) == []
    assert rule.least_steps() == 3


def test_each_loss_has_its_own_classes():
    run = Run().save(0, {"a_labels": [0, 1], "a_predictions": [0, 1], "b_labels": [5, 5]})
    run.save(0, {"b_predictions": [5, 5]})
    rule = ClassImbalance({"samples": "2", "threshold_imbalance": "1"})
    assert fired(rule, run) == []


def test_probabilities_of_classes_are_understood_by_their_shape():
    probabilities = [[0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]
    rule = ClassImbalance({"samples": "2", "threshold_misprediction": "0.1"})
    assert fired(rule, pairs(([0, 2], probabilities))) == []
    assert fired(rule, pairs(([0, 1], probabilities))) == [0]
    asked = ClassImbalance({"samples": "2", "threshold_misprediction": "0.1", "argmax": "True"})
    assert fired(asked, pairs(([0, 2], probabilities))) == []


def test_names_of_the_users_win():
    run = Run().save(0, {"truth": [0, 0, 1], "guess": [0, 0, 0]})
    settings = {"samples": "3", "labels_regex": "truth", "predictions_regex": "guess"}
    assert fired(ClassImbalance(settings), run) == [0]
    assert fired(ClassImbalance({"samples": "3"}), run) == []


def test_nothing_to_count_is_nothing_to_say():
    rule = ClassImbalance({"samples": "1"})
    assert fired(rule, Run().save(0, {"Net_fc.weight": [1.0]})) == []
    assert fired(rule, pairs(([], []), ([-100, -100], [0, 1]))) == []
    assert fired(rule, Run().save(0, {"labels": [0, 1]})) == []


STEP = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=6)


@REPEATABLE
@given(st.lists(STEP, max_size=5), st.integers(1, 8), st.integers(1, 4), st.floats(0, 1))
def test_it_fires_exactly_where_plain_python_says(steps, samples, imbalance, misprediction):
    expected, seen = [], []
    for step, new in enumerate(steps):
        seen += new
        classes = sorted({label for label, _ in seen})
        counts = [sum(label == c for label, _ in seen) for c in classes]
        wrong = [sum(label == c and p != c for label, p in seen) for c in classes]
        if len(seen) >= samples and (
            max(counts) / min(counts) > imbalance
            or any(w / n > misprediction for w, n in zip(wrong, counts, strict=True))
        ):
            expected.append(step)
    rule = ClassImbalance(
        {
            "samples": str(samples),
            "threshold_imbalance": str(imbalance),
            "threshold_misprediction": repr(misprediction),
        }
    )
    run = pairs(*(([p[0] for p in new], [p[1] for p in new]) for new in steps))
    assert fired(rule, run) == expected


def test_an_expression_that_cannot_be_understood_is_refused_before_any_step():
    with pytest.raises(RuleInvalid, match="not a valid regular expression"):
        ClassImbalance({"labels_regex": "("}).needs()


def test_several_expressions_are_separated_by_commas():
    run = Run().save(0, {"truth": [0, 0, 1], "guess": [0, 0, 0]})
    settings = {"samples": "3", "labels_regex": "x, truth", "predictions_regex": "guess,y"}
    assert fired(ClassImbalance(settings), run) == [0]


@pytest.mark.parametrize(
    "settings",
    [
        *({"threshold_imbalance": "0.5"}, {"threshold_misprediction": "1.1"}),
        *({"threshold_misprediction": "-0.1"}, {"samples": "0"}, {"argmax": "maybe"}),
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        ClassImbalance(settings)
