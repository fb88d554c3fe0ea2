"""Bayesian search: a Gaussian process of what was seen so far chooses the next trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from stoker.tuning.acquisition import find_most_promising, make_lattice
from stoker.tuning.gaussian_process import Posterior, choose_points, condition, fit
from stoker.tuning.study import Goal, Study, Trial, TrialState

Array = NDArray[np.float64]

# The time of a suggestion grows with the cube of this.
_MOST_POINTS = 160
_WORST = 2.0
_LARGEST = 1e100  # differences of larger numbers are not finite
# Every so many trials the fitted lengths are doubted, by this deviation of their logarithm: a
# process that is wrong but certain would otherwise repeat what it knows for the whole search.
_DOUBT_EVERY, _DOUBT = 3, 0.5


def count_first_trials(dimensions: int) -> int:
    """How many trials are spread evenly before the process has a say."""
    return min(10, 4 + dimensions // 2)


def spread_evenly(seed: int, number: int, dimensions: int) -> list[float]:
    """The point with this number of a sequence that fills the cube evenly, shifted by the seed.

    It is the additive recurrence of the generalised golden ratio (Roberts, 2018).
    """
    ratio = 2.0
    for _ in range(50):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    source = Random(f"{seed}/shift")  # noqa: S311 - a search, not a secret
    return [(source.random() + number / ratio ** (i + 1)) % 1.0 for i in range(dimensions)]


def rank_points(study: Study, number: int, trials: Sequence[Trial]) -> Array:
    """Points of the unit cube for the next trial, best first; none before the first trials."""
    seen = read_observations(study, trials)
    dimensions = len(study.space.parameters)
    first = count_first_trials(dimensions)
    if len(seen.costs) < first:
        return np.empty((0, dimensions))
    lattice = make_lattice(study.space.parameters)
    if seen.parents.any():
        # Whose trial it was is one more category; what is asked for is always a trial of our own.
        lattice = lattice.with_constant()
    points = np.column_stack([seen.points, seen.parents])[:, : len(lattice.levels)]
    waiting = np.column_stack([seen.waiting, np.zeros(len(seen.waiting))])[:, : points.shape[1]]
    values = np.empty_like(seen.costs)
    for parent in np.unique(seen.parents):
        own = seen.parents == parent
        typical = float(np.median(seen.costs[own][:first]))
        values[own] = standardize(seen.costs[own], typical=typical)
    kept = choose_points(values, _MOST_POINTS)
    posterior = fit(points[kept], values[kept], lattice.is_category)
    # Of seed and number alone: a search that was killed continues with the same trials (decision
    # 35).
    source = np.random.default_rng([study.seed, number])
    weights = posterior.weights
    if number % _DOUBT_EVERY == 0:
        weights = weights * np.exp(2 * _DOUBT * source.standard_normal(len(weights)))
    posterior = _believe(posterior, weights, values[kept], waiting)
    # With noise, the lowest prediction measures better what was reached than the lowest value.
    predicted = posterior.predict_mean(lattice.snap(posterior.points))
    return find_most_promising(posterior, lattice, predicted, source)[:, :dimensions]


def standardize(costs: Array, *, typical: float) -> Array:
    """Mean 0 and deviation 1, after costs above the typical one were compressed.

    Trainings that diverge have losses of any size; how bad they are does not matter, and without
    this they would hide all differences between the good ones.

    Args:
        costs: of all trials.
        typical: the median of trials that were not chosen for their cost. That of all trials
            moves to the best as the search closes in, and would compress everything else.
    """
    scale = typical - float(costs.min())
    if scale <= 0:
        scale = float(np.ptp(costs)) or 1.0
    above = (costs - typical) / scale
    compressed = np.where(above < 0, above, np.minimum(np.log1p(np.maximum(above, 0)), _WORST))
    deviation = float(compressed.std())
    return np.asarray((compressed - compressed.mean()) / (deviation or 1.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Observations:
    """What the trials have shown, as arrays."""

    points: Array
    costs: Array
    parents: Array
    """0 for trials of the study, n for those of its n-th parent (transfer learning)."""
    waiting: Array
    """The points of trials that have not ended."""


def read_observations(study: Study, trials: Sequence[Trial]) -> Observations:
    """Those of the study and of its parents, as far as they are in the space."""
    points, costs, parents, waiting = [], [], [], []
    for trial in (*study.earlier, *trials):
        point = study.space.encode(trial.parameters)
        if point is None:
            continue
        cost = _cost(study.goal, trial)
        if cost is not None:
            points.append(point)
            costs.append(cost)
            parents.append(float(trial.parent))
        elif trial.is_pending:
            waiting.append(point)
    dimensions = len(study.space.parameters)
    return Observations(
        points=np.array(points).reshape(-1, dimensions),
        costs=np.array(costs),
        parents=np.array(parents),
        waiting=np.array(waiting).reshape(-1, dimensions),
    )


def _cost(goal: Goal, trial: Trial) -> float | None:
    if trial.is_pending or trial.state is TrialState.FAILED or trial.value is None:
        return None
    return min(max(goal.cost(trial.value), -_LARGEST), _LARGEST)


def _believe(posterior: Posterior, weights: Array, values: Array, waiting: Array) -> Posterior:
    """Running trials count as observed where the process expects them."""
    return condition(
        np.concatenate([posterior.points, waiting]),
        np.concatenate([values, posterior.predict_mean(waiting)]),
        posterior.is_category,
        weights,
        posterior.amplitude,
        posterior.noise,
    )
