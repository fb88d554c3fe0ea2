"""FeatureImportanceOverweight and TreeDepth, over data that smdebug's hook for XGBoost saved.

tests/data/xgboost holds two real trainings; make.py there made them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.debugging.rules.class_imbalance import ClassImbalance
from stoker.debugging.rules.confusion import Confusion
from stoker.debugging.rules.feature_importance_overweight import FeatureImportanceOverweight
from stoker.debugging.rules.tree_depth import TreeDepth
from stoker.debugging.tensors import SavedTensors
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE

DATA = Path(__file__).parents[2] / "data/xgboost"


@pytest.fixture(scope="module")
def overweight() -> SavedTensors:
    return SavedTensors(DATA / "overweight")


@pytest.fixture(scope="module")
def balanced() -> SavedTensors:
    return SavedTensors(DATA / "balanced")


def importances(*scores: float, kind: str = "weight") -> Run:
    tensors = {f"feature_importance/{kind}/f{n}": [score] for n, score in enumerate(scores)}
    return Run().save(0, tensors, mode="GLOBAL")


def trees(*steps) -> Run:
    run = Run()
    for step, nodes in enumerate(steps):
        run.save(step, {"trees/Node": np.array(nodes, np.int64)}, mode="GLOBAL")
    return run


def test_a_model_of_one_feature_fires_at_its_first_round(overweight):
    found = judge(FeatureImportanceOverweight(), overweight)
    assert list(found) == [0, 1, 2]
    assert found[0].tensor == "feature_importance/weight/f0"
    assert found[0].values == {"share": 1, "threshold": 0.8, "features": 1}


def test_a_model_of_eight_features_alike_does_not_fire(balanced):
    assert fired(FeatureImportanceOverweight(), balanced) == []
    # The three most important have half of all splits.
    found = judge(FeatureImportanceOverweight({"threshold": "0.4"}), balanced)
    assert list(found) == [0, 1, 2]
    assert found[0].values["share"] == pytest.approx(0.5)


def test_trees_without_a_limit_fire_at_the_first_round(overweight):
    found = judge(TreeDepth(), overweight)  # max_depth 100, as in the tests of 2019
    assert list(found) == [0, 1, 2]
    assert found[0].message == (
        "the tree of step 0 has nodes up to number 44, which is depth 5 (limit 4)"
    )


def test_trees_of_depth_4_do_not_fire(balanced):  # max_depth 4, as in the tests of 2019
    assert fired(TreeDepth(), balanced) == []
    assert fired(TreeDepth({"depth": "3"}), balanced) == [0, 1, 2]


def test_the_rules_about_classes_understand_probabilities_of_xgboost(overweight, balanced):
    assert fired(Confusion(), overweight) == []
    assert 0 in fired(Confusion({"min_diag": "0.99"}), balanced)
    assert fired(ClassImbalance({"samples": "60"}), overweight) == []
    assert fired(ClassImbalance({"samples": "60", "threshold_imbalance": "1"}), overweight)


@pytest.mark.parametrize(("threshold", "fires"), [("0.75", False), ("0.7499", True)])
def test_the_share_has_to_be_exceeded(threshold, fires):
    run = importances(0.25, 0.25, 0.125, 0.25, 0.125)
    assert bool(fired(FeatureImportanceOverweight({"threshold": threshold}), run)) is fires


def test_the_number_of_features_can_be_set():
    run = importances(0.5, 0.25, 0.25)
    assert fired(FeatureImportanceOverweight({"nfeatures": "1", "threshold": "0.5"}), run) == []
    assert fired(FeatureImportanceOverweight({"nfeatures": "2", "threshold": "0.5"}), run) == [0]


def test_another_kind_of_importance_can_be_named():
    run = importances(1.0, kind="gain")
    assert fired(FeatureImportanceOverweight(), run) == []
    settings = {"tensor_regex": "feature_importance/gain"}
    assert fired(FeatureImportanceOverweight(settings), run) == [0]


def test_importances_of_several_workers_are_the_same_model():
    run = importances(0.3, 0.3, 0.2, 0.2)
    run.save(0, {f"feature_importance/weight/f{n}": [0.9] for n in range(4)}, worker="worker_1")
    assert fired(FeatureImportanceOverweight(), run) == []


@pytest.mark.parametrize("scores", [(), (0.0, 0.0), (np.nan, 1.0)])
def test_no_importance_at_all_says_nothing(scores):
    assert fired(FeatureImportanceOverweight(), importances(*scores)) == []


@REPEATABLE
@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 4), st.floats(0, 1))
def test_overweight_is_what_numpy_says(scores, nfeatures, threshold):
    share = np.sort(scores)[::-1][:nfeatures].sum() / max(1, np.sum(scores))
    settings = {"nfeatures": str(nfeatures), "threshold": repr(threshold)}
    found = fired(FeatureImportanceOverweight(settings), importances(*map(float, scores)))
    assert bool(found) is bool(share > threshold)


@pytest.mark.parametrize(("largest", "fires"), [(30, False), (31, True), (62, True)])
def test_a_full_tree_of_the_depth_is_allowed_and_one_node_more_is_not(largest, fires):
    assert bool(fired(TreeDepth(), trees(range(largest + 1)))) is fires


def test_a_root_alone_has_depth_0_and_an_empty_tree_none():
    rule = TreeDepth({"depth": "0"})
    assert fired(rule, trees([0], [], [0, 1, 2])) == [2]
    assert fired(rule, Run().save(0, {"trees/Gain": [1.0]})) == []


@REPEATABLE
@given(st.integers(0, 1 << 40), st.integers(0, 45))
def test_depth_is_what_numpy_says(largest, depth):
    expected = np.floor(np.log2(largest + 1)) > depth
    assert bool(fired(TreeDepth({"depth": str(depth)}), trees([0, largest]))) is bool(expected)


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        (FeatureImportanceOverweight, {"threshold": "1.5"}),
        (FeatureImportanceOverweight, {"nfeatures": "0"}),
        (TreeDepth, {"depth": "-1"}),
        (TreeDepth, {"depth": "4.5"}),
    ],
)
def test_settings_that_cannot_be_are_refused(rule, settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        rule(settings)
