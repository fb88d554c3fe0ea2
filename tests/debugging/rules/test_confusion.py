"""Confusion: classes that are taken for one another."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.confusion import Confusion
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE
from tests.debugging.rules.watching import watch

TEN = list(range(10))


def pairs(labels, predictions, /, **names: str) -> Run:
    names = {"labels": "labels", "predictions": "predictions", **names}
    tensors = {names["labels"]: np.array(labels), names["predictions"]: np.array(predictions)}
    return Run().save(0, tensors)


def fine_tune(folder, rule: Confusion, *, known: int) -> Run:
    """A classifier of four kinds of points; of these it knows some when it begins."""
    torch.manual_seed(0)
    model, loss = nn.Linear(4, 4, bias=False), nn.CrossEntropyLoss()
    with torch.no_grad():
        model.weight.copy_(torch.eye(4) * (torch.arange(4) < known)[:, None] * 9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    labels = torch.arange(80) % 4
    with watch(rule, folder) as run:
        for _ in range(12):
            inputs = torch.eye(4)[labels] + 0.05 * torch.randn(80, 4)
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()
            optimizer.step()
    return run


def test_a_class_that_is_not_known_yet_fires_until_it_is(tmp_path):
    rule = Confusion()
    found = judge(rule, fine_tune(tmp_path, rule, known=2))
    assert min(found) == 0
    assert max(found) < 11  # learned by then
    assert found[0].tensor == "CrossEntropyLoss_input_0"
    assert found[0].values["class"] in (2, 3)


def test_a_classifier_that_knows_all_classes_does_not_fire(tmp_path):
    rule = Confusion()
    run = fine_tune(tmp_path, rule, known=4)
    assert len(run.steps()) == 12
    assert fired(rule, run) == []


def test_ten_classes_that_are_all_right_do_not_fire():  # of the tests of 2019
    assert fired(Confusion({"category_no": "10"}), pairs(TEN, TEN)) == []


def test_one_of_ten_single_samples_wrong_fires():  # of the tests of 2019
    assert fired(Confusion({"category_no": "10"}), pairs(TEN, [*TEN[:9], 0])) == [0]
    assert fired(Confusion(), pairs(TEN, [1, *TEN[1:]])) == [0]


def test_only_the_columns_count_where_no_diagonal_is_asked_for():  # of the tests of 2019
    settings = {"min_diag": "0", "max_off_diag": "0.01"}
    found = judge(Confusion(settings), pairs(TEN, [*TEN[:9], 0]))
    assert found[0].values == {"share": 0.5, "max_off_diag": 0.01, "label": 9, "prediction": 0}
    assert fired(Confusion(settings), pairs(TEN, TEN)) == []


@pytest.mark.parametrize(("min_diag", "fires"), [("0.75", False), ("0.7501", True), ("0", False)])
def test_a_share_that_is_just_reached_is_enough(min_diag, fires):
    run = pairs([0, 0, 0, 0, 1], [0, 0, 0, 1, 1])
    assert bool(fired(Confusion({"min_diag": min_diag, "max_off_diag": "1"}), run)) is fires


@pytest.mark.parametrize(("most", "fires"), [("0.5", False), ("0.4999", True), ("1", False)])
def test_a_share_of_others_that_is_just_reached_is_allowed(most, fires):
    run = pairs([0, 0, 0, 0, 1], [0, 0, 0, 1, 1])
    assert bool(fired(Confusion({"min_diag": "0", "max_off_diag": most}), run)) is fires


def test_the_finding_says_which_classes_are_mixed_up():
    found = judge(Confusion(), pairs([0] * 10 + [1] * 10, [0] * 10 + [1] * 4 + [0] * 6))
    assert found[0].message == (
        "40.0% of the 10 samples of class 1 are predicted right in predictions at step 0 "
        "(limit 90%)"
    )


def test_names_and_collections_of_the_users_win():
    run = pairs([0, 1], [1, 0], labels="truth", predictions="guess")
    assert fired(Confusion({"labels": "truth", "predictions": "guess"}), run) == [0]
    assert fired(Confusion(), run) == []
    own = Run(collections={"t": ["truth"], "g": ["guess"]})
    own.save(0, {"truth": [0, 1], "guess": [1, 0]})
    settings = {"labels_collection": "t", "predictions_collection": "g"}
    assert fired(Confusion(settings), own) == [0]


def test_a_vocabulary_needs_no_matrix_of_its_own_size():
    tokens = np.arange(0, 1_000_000, 1000)
    assert fired(Confusion(), pairs(tokens, tokens)) == []


def test_nothing_to_count_is_nothing_to_say():
    assert fired(Confusion(), pairs([], [])) == []
    assert fired(Confusion(), pairs([-100], [1])) == []
    assert fired(Confusion(), Run().save(0, {"Net_fc.weight": [1.0]})) == []


def test_more_classes_than_there_should_be_are_an_error():
    with pytest.raises(RuleInvalid, match="holds the class 3, but category_no is 3"):
        fired(Confusion({"category_no": "3"}), pairs([0, 1], [0, 3]))


@REPEATABLE
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_it_fires_exactly_when_the_matrix_says(samples, min_diag, max_off_diag):
    matrix = np.zeros((5, 5), int)
    for label, prediction in samples:
        matrix[label][prediction] += 1
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    low = any(rows[i] and matrix[i][i] / rows[i] < min_diag for i in range(5))
    high = any(
        columns[i] and matrix[j][i] / columns[i] > max_off_diag
        for i in range(5)
        for j in range(5)
        if i != j
    )
    rule = Confusion({"min_diag": repr(min_diag), "max_off_diag": repr(max_off_diag)})
    run = pairs([s[0] for s in samples], [s[1] for s in samples])
    assert bool(fired(rule, run)) is (low or high)


@pytest.mark.parametrize(
    "settings",
    [
        *({"category_no": "1"}, {"min_diag": "1.1"}, {"min_diag": "-0.1"}),
        *({"max_off_diag": "1.1"}, {"max_off_diag": "-0.1"}),
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        Confusion(settings)
