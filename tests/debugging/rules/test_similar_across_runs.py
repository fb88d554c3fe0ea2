"""SimilarAcrossRuns: it fires where two runs differ."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.similar_across_runs import SimilarAcrossRuns
from stoker.debugging.tensors import SavedStep, SavedTensors, write_collections, write_step
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import fired, judge
from tests.debugging.rules.values import REPEATABLE, any_array
from tests.debugging.rules.watching import watch


def save(folder, *steps: dict, worker: str = "worker_0", reductions=()) -> SavedTensors:
    """Each of `steps` is name → value at that step; None for a step that is not saved."""
    for step, tensors in enumerate(steps):
        if tensors is not None:
            arrays = {name: np.array(value) for name, value in tensors.items()}
            write_step(folder, worker, make_step(step, arrays, reductions))
    write_collections(str(folder), worker, [])
    return SavedTensors(folder)


def make_step(step, arrays, reductions) -> SavedStep:
    common = {"step": step, "mode": "TRAIN", "mode_step": step}
    if not reductions:
        return SavedStep(**common, tensors=arrays)
    numbers = {n: {r: float(getattr(np, r)(a)) for r in reductions} for n, a in arrays.items()}
    return SavedStep(**common, reductions=numbers)


def train(folder, *, seed: int, lr: float = 0.1) -> SavedTensors:
    """A real training, saved by the hook as the rule asks for it: every tensor of every step."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
    torch.manual_seed(seed)
    model, loss = nn.Linear(4, 1), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with watch(rule("nowhere"), folder) as run:
        for _ in range(4):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
    assert {"Linear_weight", "Linear_output_0", "MSELoss_output_0"} < {*run.names()}
    return run


def rule(*folders, **settings: str) -> SimilarAcrossRuns:
    return SimilarAcrossRuns({"other_trials": ",".join(map(str, folders)), **settings})


def test_a_run_with_another_learning_rate_fires_at_the_first_step_that_differs(tmp_path):
    run = train(tmp_path / "a", seed=1)
    train(tmp_path / "b", seed=1, lr=0.11)
    found = judge(rule(tmp_path / "b"), run)
    assert list(found) == [1, 2, 3]  # at step 0 nothing was learned yet
    assert found[1].tensor == "Linear_bias"
    assert str(tmp_path / "b") in found[1].message
    assert found[1].values["largest_difference"] > 0


def test_a_run_with_another_seed_fires_at_once(tmp_path):
    run = train(tmp_path / "a", seed=1)
    train(tmp_path / "b", seed=2)
    assert fired(rule(tmp_path / "b"), run) == [0, 1, 2, 3]


def test_the_same_run_again_does_not_fire(tmp_path):
    run = train(tmp_path / "a", seed=1)
    train(tmp_path / "b", seed=1)
    assert fired(rule(tmp_path / "b"), run) == []
    assert fired(rule(tmp_path / "a"), run) == []


def test_only_what_is_named_is_compared(tmp_path):
    run = save(tmp_path / "a", {"Net_fc.weight": [1.0], "MSELoss_output_0": 1.0})
    save(tmp_path / "b", {"Net_fc.weight": [1.0], "MSELoss_output_0": 2.0})
    other = tmp_path / "b"
    assert fired(rule(other), run) == [0]
    assert fired(rule(other, collection_names="weights"), run) == []
    assert fired(rule(other, tensor_regex="fc"), run) == []
    assert fired(rule(other, collection_names="losses", tensor_regex="fc"), run) == [0]


def test_one_of_several_other_runs_is_enough(tmp_path):
    run = save(tmp_path / "a", {"w": [1.0]}, {"w": [2.0]})
    save(tmp_path / "b", {"w": [1.0]}, {"w": [2.0]})
    save(tmp_path / "c", {"w": [1.0]}, {"w": [3.0]})
    found = judge(rule(tmp_path / "b", tmp_path / "c"), run)
    assert list(found) == [1]
    assert str(tmp_path / "c") in found[1].message


def test_steps_and_tensors_that_only_one_has_are_not_compared(tmp_path):
    run = save(tmp_path / "a", {"w": [1.0]}, {"w": [1.0]}, {"w": [1.0], "x": [1.0]})
    save(tmp_path / "b", {"w": [1.0]}, None, {"w": [1.0], "y": [2.0]}, {"w": [9.0]})
    assert fired(rule(tmp_path / "b"), run) == []


def test_steps_of_a_run_that_is_still_going_on_are_found_as_they_come(tmp_path):
    run = save(tmp_path / "a", {"w": [1.0]}, {"w": [1.0]})
    watching = rule(tmp_path / "b")
    assert watching.check(0, run.at(0)) is None  # there is not even a folder
    save(tmp_path / "b", None, {"w": [2.0]})
    assert watching.check(1, run.at(1)) is not None


def test_other_shapes_are_a_difference(tmp_path):
    run = save(tmp_path / "a", {"w": [1.0, 1.0]})
    save(tmp_path / "b", {"w": [1.0]})
    found = judge(rule(tmp_path / "b"), run)
    assert "the shape is (2,) here and (1,) there" in found[0].message


def test_reductions_are_compared_where_there_are_no_values(tmp_path):
    run = save(tmp_path / "a", {"w": [1.0, 3.0]}, {"w": [1.0, 3.0]}, reductions=("mean", "max"))
    save(tmp_path / "b", {"w": [1.0, 3.0]}, {"w": [0.0, 4.0]}, reductions=("mean", "max"))
    found = judge(rule(tmp_path / "b"), run)
    assert list(found) == [1]
    assert "the values of max differ by up to 1" in found[1].message
    save(tmp_path / "c", {"w": [1.0, 3.0]}, {"w": [2.0, 2.0]})
    assert fired(rule(tmp_path / "c"), run) == [1]


def test_workers_are_compared_with_the_same_worker(tmp_path):
    save(tmp_path / "a", {"w": [1.0]})
    run = save(tmp_path / "a", {"w": [2.0]}, worker="worker_1")
    save(tmp_path / "b", {"w": [1.0]})
    save(tmp_path / "b", {"w": [2.0]}, worker="worker_1")
    assert fired(rule(tmp_path / "b"), run) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((np.uint8(0), np.uint8(255)), (True, False), (1 + 1j, 1 - 1j)),
        *((np.inf, -np.inf), (np.nan, np.nan), (1.0, np.nan)),
    ],
)
def test_differences_of_every_kind_are_found(tmp_path, one, other):
    run = save(tmp_path / "a", {"w": [one]})
    save(tmp_path / "b", {"w": [other]})
    assert fired(rule(tmp_path / "b"), run) == [0]


@REPEATABLE
@given(st.data())
def test_it_fires_exactly_when_numpy_does_not_find_them_close(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("runs")
    one = data.draw(any_array())
    with np.errstate(all="ignore"):
        near = one * np.float32(1 + 1e-5)
    other = data.draw(st.one_of(st.just(one), st.just(near), any_array()))
    run = save(folder / "a", {"w": one, "x": [0.0]})
    save(folder / "b", {"w": other, "x": [0.0]})
    with np.errstate(all="ignore"):
        expected = one.shape != other.shape or not np.allclose(one, other)
    assert bool(fired(rule(folder / "b"), run)) is expected


@pytest.mark.parametrize("settings", [{}, {"other_trials": " , "}])
def test_without_another_run_it_is_refused(settings):
    with pytest.raises(RuleInvalid, match="no other run to compare with"):
        SimilarAcrossRuns(settings)


def test_an_expression_that_cannot_be_understood_is_refused():
    with pytest.raises(RuleInvalid, match="not a valid regular expression"):
        rule("b", tensor_regex="(")
