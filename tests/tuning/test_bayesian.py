"""The Bayesian search: its process, and that it finds what random search does not."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest

from stoker.tuning.bayesian import spread_evenly, standardize
from stoker.tuning.box_minimum import find_minimum
from stoker.tuning.gaussian_process import fit
from stoker.tuning.importance import estimate_importance
from stoker.tuning.parameters import Categorical, Continuous, Scaling
from stoker.tuning.search import suggest
from stoker.tuning.space import SearchSpace
from stoker.tuning.study import Goal, Strategy, Study, Trial, TrialState
from stoker.tuning.warm_start import WarmStart, make_earlier

RATE = Continuous(name="lr", low=1e-6, high=1.0, scaling=Scaling.LOGARITHMIC)
DROPOUT = Continuous(name="dropout", low=0.0, high=0.8, scaling=Scaling.LINEAR)
OPTIMIZER = Categorical(name="opt", values=("sgd", "adam"))
SPACE = SearchSpace(parameters=(RATE, DROPOUT, OPTIMIZER))


def evaluate(values):
    aim = -3.2 if values["opt"] == "adam" else -1.0
    penalty = 0.0 if values["opt"] == "adam" else 0.2
    rate = math.log10(float(values["lr"])) - aim
    return penalty + 0.1 * rate**2 + (float(values["dropout"]) - 0.3) ** 2


def run(study, count, objective=evaluate):
    trials = []
    for number in range(1, count + 1):
        values = suggest(study, number, trials)
        state = TrialState.COMPLETED
        trials.append(
            Trial(number=number, parameters=values, state=state, objective=objective(values))
        )
    return trials


def best_of(strategy, *, seed, count=25, **more):
    study = Study(space=SPACE, goal=Goal.MINIMIZE, strategy=strategy, seed=seed, **more)
    return min(trial.objective for trial in run(study, count))


def test_it_comes_nearer_to_the_optimum_than_random_search():
    ours = median(best_of(Strategy.BAYESIAN, seed=seed) for seed in range(5))
    peer = median(best_of(Strategy.RANDOM, seed=seed) for seed in range(5))
    assert ours < peer / 4


def test_maximizing_is_minimizing_of_the_negative():
    low = Study(space=SPACE, goal=Goal.MINIMIZE, seed=4)
    high = Study(space=SPACE, goal=Goal.MAXIMIZE, seed=4)
    negative = run(high, 15, lambda values: -evaluate(values))
    assert [t.parameters for t in run(low, 15)] == [t.parameters for t in negative]


@pytest.mark.parametrize("kind", WarmStart)
def test_a_warm_start_begins_where_its_parent_ended(kind):
    parent = run(Study(space=SPACE, goal=Goal.MINIMIZE, seed=1), 30)
    if kind is WarmStart.TRANSFER:  # the same shape on another scale
        parent = [
            Trial(number=t.number, parameters=t.parameters, state=t.state,
                  objective=50 + 9 * t.objective) for t in parent
        ]  # fmt: skip
    warm = median(
        best_of(Strategy.BAYESIAN, seed=s, count=4, earlier=make_earlier(kind, [parent]))
        for s in range(2, 7)
    )
    cold = median(best_of(Strategy.BAYESIAN, seed=seed, count=4) for seed in range(2, 7))
    assert warm < cold / 2


def test_failed_and_diverged_trials_do_not_end_the_search():
    study = Study(space=SPACE, goal=Goal.MINIMIZE, seed=2)
    trials = []
    for number in range(1, 20):
        values = suggest(study, number, trials)
        lost = number % 3 == 0
        objective = None if lost else 1e300 if number % 5 == 0 else evaluate(values)
        state = TrialState.FAILED if lost else TrialState.COMPLETED
        if number == 7:
            objective = math.nan
        trials.append(Trial(number=number, parameters=values, state=state, objective=objective))
    assert SPACE.encode(suggest(study, 20, trials)) is not None


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_equal_objectives_are_no_obstacle(value):
    study = Study(space=SPACE, goal=Goal.MINIMIZE)
    points = {tuple(t.parameters.values()) for t in run(study, 14, lambda values: value)}
    assert len(points) == 14


def test_a_parallel_search_does_not_ask_for_the_same_twice():
    study = Study(space=SPACE, goal=Goal.MINIMIZE, seed=5)
    trials = run(study, 9)
    for number in range(10, 14):
        trials.append(Trial(number=number, parameters=suggest(study, number, trials)))
    points = np.array([SPACE.encode(trial.parameters) for trial in trials[9:]])
    gaps = [np.abs(a - b).max() for i, a in enumerate(points) for b in points[:i]]
    assert min(gaps) > 0.01


def test_the_process_learns_which_dimensions_matter_and_how_noisy_it_is():
    source = np.random.default_rng(0)
    points = source.random((60, 3))
    values = np.sin(6 * points[:, 0]) + 0.1 * source.standard_normal(60)
    process = fit(points, (values - values.mean()) / values.std(), np.zeros(3, bool))
    assert process.weights[0] > 20 * process.weights[1:].max()
    assert 0.003 < process.noise < 0.1


def test_trials_that_gather_at_the_best_promise_nothing_elsewhere():
    source = np.random.default_rng(2)
    gathered = 0.5 + 0.01 * source.standard_normal((40, 6))
    points = np.concatenate([source.random((10, 6)), gathered])
    costs = -np.exp(-20 * ((points - 0.5) ** 2).sum(axis=1))  # about 0 but for the valley
    process = fit(points, (costs - costs.mean()) / costs.std(), np.zeros(6, bool))
    corners = source.integers(0, 2, (50, 6)).astype(float)
    elsewhere = process.predict_mean(corners) * costs.std() + costs.mean()
    assert elsewhere.min() > -0.2


def test_slopes_are_those_of_the_prediction():
    source = np.random.default_rng(1)
    points = source.random((15, 2))
    process = fit(points, source.standard_normal(15), np.zeros(2, bool))
    here, step = np.array([0.4, 0.6]), np.array([1e-6, 0.0])
    mean, deviation, mean_slope, deviation_slope = process.predict_slopes(here)
    means, deviations = process.predict(np.array([here, here + step]))
    assert (mean, deviation) == pytest.approx((means[0], deviations[0]))
    assert mean_slope[0] == pytest.approx((means[1] - means[0]) / 1e-6, rel=1e-3)
    assert deviation_slope[0] == pytest.approx((deviations[1] - deviations[0]) / 1e-6, rel=1e-3)


def test_a_minimum_is_found_inside_the_box_and_on_its_edge():
    def rosenbrock(x):
        slope = [-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)]
        return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2), np.array(slope)

    start, low = np.array([-1.0, 1.5]), np.array([-2.0, -2.0])
    inside, _ = find_minimum(rosenbrock, start, low=low, high=np.array([2.0, 2.0]), steps=80)
    assert inside == pytest.approx([1, 1], abs=1e-3)
    edge, _ = find_minimum(rosenbrock, start, low=low, high=np.array([0.5, 2.0]), steps=80)
    assert edge == pytest.approx([0.5, 0.25], abs=1e-2)


def test_the_first_trials_fill_the_cube_evenly():
    points = np.array([spread_evenly(3, number, 2) for number in range(1, 17)])
    cells = {tuple((point * 3).astype(int)) for point in points}
    assert len(cells) == 9


def test_compression_keeps_the_order_and_the_good_half():
    costs = np.array([0.1, 0.2, 0.3, 0.4, 1e9])
    values = standardize(costs, typical=0.3)
    assert list(np.argsort(values)) == [0, 1, 2, 3, 4]
    assert values[1] - values[0] == pytest.approx(values[2] - values[1])
    assert values[4] < values[2] + 3 * (values[2] - values[0])


def test_importance_names_what_matters_with_its_uncertainty():
    study = Study(space=SPACE, goal=Goal.MINIMIZE, strategy=Strategy.RANDOM)
    trials = run(study, 30, lambda values: math.log10(float(values["lr"])) ** 2)
    first, *others = estimate_importance(study, trials)
    assert first.name == "lr"
    assert first.low <= first.share <= first.high
    assert first.low > 0.8
    assert all(one.high < 0.2 for one in others)


def test_importance_says_nothing_about_too_few_trials():
    study = Study(space=SPACE, goal=Goal.MINIMIZE, strategy=Strategy.RANDOM)
    assert estimate_importance(study, run(study, 5)) == []
