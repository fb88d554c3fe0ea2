"""Suggestions: in range, a pure function of seed, number and trials, never repeated needlessly."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.tuning.parameters import Categorical, Continuous, Integer, Scaling
from stoker.tuning.search import find_strategy_mistakes, suggest
from stoker.tuning.space import SearchSpace
from stoker.tuning.study import Goal, Strategy, Study, Trial, TrialState

RATE = Continuous(name="lr", low=1e-5, high=1e-1, scaling=Scaling.LOGARITHMIC)
LAYERS = Integer(name="layers", low=1, high=4)
OPTIMIZER = Categorical(name="opt", values=("sgd", "adam", "lion"))
SPACE = SearchSpace(parameters=(RATE, LAYERS, OPTIMIZER))
SMALL = SearchSpace(parameters=(LAYERS, OPTIMIZER))
SEARCHES = tuple(strategy for strategy in Strategy if strategy is not Strategy.GRID)


def run(study, count, *, objective=lambda values: float(values["layers"]), pending=0):
    """`count` trials one after another; the last `pending` of them always still run."""
    trials = []
    for number in range(1, count + 1):
        values = suggest(study, number, trials)
        trials.append(Trial(number=number, parameters=values))
        if number > pending:
            trials[-1 - pending] = Trial(
                number=number - pending,
                parameters=trials[-1 - pending].parameters,
                state=TrialState.COMPLETED,
                objective=objective(trials[-1 - pending].parameters),
            )
    return trials


@pytest.mark.parametrize("strategy", SEARCHES)
def test_suggestions_stay_in_range(strategy):
    study = Study(space=SPACE, goal=Goal.MINIMIZE, strategy=strategy, seed=3)
    assert all(SPACE.encode(trial.parameters) for trial in run(study, 25, pending=2))


@st.composite
def studies(draw):
    """Spaces of any kinds and sizes, with a seed and objectives that are hard to fit."""
    parameters = []
    for index in range(draw(st.integers(1, 6))):
        name, kind = f"p{index}", draw(st.sampled_from(["number", "integer", "category"]))
        if kind == "category":
            count = draw(st.integers(2, 30))
            parameters.append(Categorical(name=name, values=tuple(map(str, range(count)))))
            continue
        scaling = draw(st.sampled_from([Scaling.AUTO, Scaling.LINEAR, Scaling.LOGARITHMIC]))
        low = draw(st.integers(1, 10**6))
        high = low + draw(st.integers(1, 10**12))
        make = Integer if kind == "integer" else Continuous
        parameters.append(make(name=name, low=low, high=high, scaling=scaling))
    study = Study(
        space=SearchSpace(parameters=tuple(parameters)),
        goal=draw(st.sampled_from(Goal)),
        strategy=draw(st.sampled_from(SEARCHES)),
        seed=draw(st.integers(0, 2**64)),
    )
    size = st.floats(allow_nan=False, allow_infinity=False)
    return study, draw(st.lists(st.one_of(st.none(), size), min_size=4, max_size=14))


@settings(max_examples=30, deadline=None)
@given(studies())
def test_any_study_gets_values_of_its_space_and_the_same_ones_again(drawn):
    study, objectives = drawn
    trials = []
    for number, objective in enumerate(objectives, start=1):
        values = suggest(study, number, trials)
        if values is None:
            assert len(trials) == study.space.combinations
            return
        assert study.space.encode(values) is not None
        assert values not in [trial.parameters for trial in trials]
        state = TrialState.FAILED if objective is None else TrialState.COMPLETED
        trials.append(Trial(number=number, parameters=values, state=state, objective=objective))
    after = len(trials) + 1
    assert suggest(study, after, trials) == suggest(study, after, list(trials))


@pytest.mark.parametrize("strategy", SEARCHES)
def test_the_same_seed_number_and_trials_give_the_same_values(strategy):
    study = Study(space=SPACE, goal=Goal.MAXIMIZE, strategy=strategy, seed=7)
    trials = run(study, 15, pending=3)
    again = [suggest(study, number, trials[: number - 1]) for number in (1, 9, 15)]
    assert again == [suggest(study, number, trials[: number - 1]) for number in (1, 9, 15)]


@pytest.mark.parametrize("strategy", SEARCHES)
def test_seeds_and_numbers_give_different_values(strategy):
    studies = [
        Study(space=SPACE, goal=Goal.MAXIMIZE, strategy=strategy, seed=seed) for seed in (0, 1)
    ]
    drawn = [suggest(study, number, [])["lr"] for study in studies for number in (1, 2)]
    assert len(set(drawn)) == 4


@pytest.mark.parametrize("strategy", [*SEARCHES, Strategy.GRID])
def test_every_combination_is_tried_once_and_then_none(strategy):
    study = Study(space=SMALL, goal=Goal.MAXIMIZE, strategy=strategy)
    trials = run(study, 12)
    assert len({tuple(trial.parameters.values()) for trial in trials}) == 12
    assert suggest(study, 13, trials) is None


def test_random_search_uses_the_whole_of_a_logarithmic_range():
    study = Study(space=SPACE, goal=Goal.MAXIMIZE, strategy=Strategy.RANDOM)
    rates = [float(suggest(study, number, [])["lr"]) for number in range(1, 401)]
    decades = [sum(10.0**-k <= r < 10.0 ** (1 - k) for r in rates) for k in (5, 4, 3, 2)]
    assert all(60 <= count <= 140 for count in decades)


def test_a_grid_goes_through_the_combinations_in_order():
    space = SearchSpace(parameters=(OPTIMIZER, Categorical(name="act", values=("relu", "gelu"))))
    study = Study(space=space, goal=Goal.MAXIMIZE, strategy=Strategy.GRID)
    drawn = [tuple(suggest(study, number, []).values()) for number in (1, 2, 3, 6)]
    assert drawn == [("sgd", "relu"), ("sgd", "gelu"), ("adam", "relu"), ("lion", "gelu")]


@pytest.mark.parametrize(
    ("space", "strategy", "trials", "text"),
    [
        (SPACE, Strategy.GRID, None, "these have numeric ranges: lr, layers"),
        (SearchSpace(parameters=(OPTIMIZER,)), Strategy.GRID, 4, "its number of combinations, 3"),
        (SMALL, Strategy.RANDOM, 13, "[12.0] must be equal or greater than the value of"),
    ],
)
def test_a_strategy_that_cannot_search_the_space_is_refused(space, strategy, trials, text):
    (mistake,) = find_strategy_mistakes(space, strategy, trials)
    assert text in mistake


def test_a_strategy_that_can_search_the_space_is_accepted():
    assert not list(find_strategy_mistakes(SMALL, Strategy.BAYESIAN, 12))
    assert not list(find_strategy_mistakes(SearchSpace(parameters=(OPTIMIZER,)), Strategy.GRID, 3))


def test_only_the_bayesian_search_loads_numpy():
    code = """
import sys
from stoker.tuning import completion, early_stopping, hyperband, warm_start
from stoker.tuning.parameters import Integer
from stoker.tuning.search import suggest
from stoker.tuning.space import SearchSpace
from stoker.tuning.study import Goal, Strategy, Study

space = SearchSpace(parameters=(Integer(name="n", low=1, high=4),))
for strategy in (Strategy.RANDOM, Strategy.HYPERBAND, Strategy.GRID):
    suggest(Study(space=space, goal=Goal.MINIMIZE, strategy=strategy), 1, [])
sys.exit("numpy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
