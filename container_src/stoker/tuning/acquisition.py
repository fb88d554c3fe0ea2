"""Where the next observation promises most: the highest logarithm of expected improvement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.tuning.box_minimum import find_minimum
from stoker.tuning.gaussian_process import Posterior
from stoker.tuning.parameters import Categorical, Continuous, Parameter

Array = NDArray[np.float64]

# Chosen on the problems of benchmarks/tuning_search.py (decision 35).
_GLOBAL, _LOCAL = 600, 400
_CENTERS = 6
_REFINED = 3
_STEPS = 12
_MOST_LEVELS = 1000  # a finer grid is as good as continuous
# Squared distance in lengths of the process: nothing is learnt from a point that is nearer.
_NEAREST = 1e-7
# Below it the two terms of the improvement cancel nearly whole; the first term of its series is
# exact enough there.
_ASYMPTOTIC_BELOW = -20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lattice:
    """The places that discrete parameters can have on the unit interval."""

    levels: tuple[Array | None, ...]
    """Of each dimension; None where it is continuous."""

    is_category: NDArray[np.bool_]

    @property
    def is_continuous(self) -> NDArray[np.bool_]:
        return np.array([levels is None for levels in self.levels])

    def with_constant(self) -> Lattice:
        """With one more category that is always 0."""
        return Lattice(
            levels=(*self.levels, np.zeros(1)), is_category=np.append(self.is_category, True)
        )

    def snap(self, points: Array) -> Array:
        """The points with each discrete coordinate at its nearest place."""
        points = points.copy()
        for column, levels in enumerate(self.levels):
            if levels is not None:
                middles = (levels[1:] + levels[:-1]) / 2
                points[:, column] = levels[np.searchsorted(middles, points[:, column])]
        return points


def make_lattice(parameters: Sequence[Parameter]) -> Lattice:
    """The places of a space's discrete parameters."""
    return Lattice(
        levels=tuple(_levels(parameter) for parameter in parameters),
        is_category=np.array([isinstance(p, Categorical) for p in parameters]),
    )


def _levels(parameter: Parameter) -> Array | None:
    count = parameter.count
    if isinstance(parameter, Continuous) or count is None or count > _MOST_LEVELS:
        return None
    return np.array([parameter.encode(parameter.value_at(index)) for index in range(count)])


def find_most_promising(
    posterior: Posterior, lattice: Lattice, costs: Array, source: np.random.Generator
) -> Array:
    """Points in the order of what they promise, best first.

    Args:
        posterior: of the cost.
        lattice: of the discrete parameters.
        costs: predicted at the observations, which are the posterior's points.
        source: of random numbers.
    """
    best = float(costs.min())
    candidates = _draw_candidates(posterior.points, lattice, costs, source)
    gains = log_expected_improvement(posterior, candidates, best)
    order = np.argsort(-gains, kind="stable")
    refined = [_refine(posterior, lattice, candidates[index], best) for index in order[:_REFINED]]
    points = lattice.snap(np.array(refined))
    refined_gains = log_expected_improvement(posterior, points, best)
    first = points[np.argsort(-refined_gains, kind="stable")]
    ranked = np.concatenate([first, candidates[order]])
    return ranked[posterior.find_nearest(ranked) > _NEAREST]


def log_expected_improvement(posterior: Posterior, points: Array, best: float) -> Array:
    """The logarithm of how far below `best` the cost is expected to be at the points."""
    mean, deviation = posterior.predict(points)
    z = (best - mean) / deviation
    return np.asarray(np.log(deviation) + np.array([_log_improvement(each) for each in z]))


def _draw_candidates(
    observed: Array, lattice: Lattice, costs: Array, source: np.random.Generator
) -> Array:
    """Points of the whole cube, and changes of a few coordinates of the best observations."""
    dimensions = observed.shape[1]
    everywhere = source.random((_GLOBAL, dimensions))
    centers = observed[np.argsort(costs, kind="stable")[:_CENTERS]]
    # The best centre has the most neighbours.
    chosen = np.minimum(source.geometric(0.35, _LOCAL) - 1, len(centers) - 1)
    near = centers[chosen]
    change = source.random((_LOCAL, dimensions)) < max(1.5 / dimensions, 0.25)
    change[np.arange(_LOCAL), source.integers(dimensions, size=_LOCAL)] = True
    widths = 10.0 ** source.uniform(-3.0, -0.5, (_LOCAL, 1))
    moved = np.clip(near + widths * source.standard_normal(near.shape), 0, 1)
    fresh = source.random(near.shape)
    moved = np.where(lattice.is_category, fresh, moved)
    return lattice.snap(np.concatenate([everywhere, np.where(change, moved, near)]))


def _refine(posterior: Posterior, lattice: Lattice, point: Array, best: float) -> Array:
    """Climb along the continuous coordinates, then try the others one by one, and climb again."""
    point = _climb(posterior, lattice, point, best)
    neighbours = _neighbours(lattice, point)
    if not len(neighbours):
        return point
    gains = log_expected_improvement(posterior, np.vstack([point, neighbours]), best)
    winner = int(np.argmax(gains))
    return point if winner == 0 else _climb(posterior, lattice, neighbours[winner - 1], best)


def _climb(posterior: Posterior, lattice: Lattice, point: Array, best: float) -> Array:
    free = lattice.is_continuous
    if not free.any():
        return point

    def loss(position: Array) -> tuple[float, Array]:
        moved = point.copy()
        moved[free] = position
        mean, deviation, mean_slope, deviation_slope = posterior.predict_slopes(moved)
        z = (best - mean) / deviation
        gain, slope = _log_improvement(z), _log_improvement_slope(z)
        z_slope = -(mean_slope + z * deviation_slope) / deviation
        total = slope * z_slope + deviation_slope / deviation
        return -(gain + math.log(deviation)), -total[free]

    low, high = np.zeros(int(free.sum())), np.ones(int(free.sum()))
    climbed, _ = find_minimum(loss, point[free], low=low, high=high, steps=_STEPS)
    moved = point.copy()
    moved[free] = climbed
    return moved


def _neighbours(lattice: Lattice, point: Array) -> Array:
    found = []
    for column, levels in enumerate(lattice.levels):
        if levels is None:
            continue
        here = int(np.abs(levels - point[column]).argmin())
        # Categories have no order: all of them are neighbours.
        reach = len(levels) if lattice.is_category[column] else 2
        for place in range(max(0, here - reach), min(len(levels), here + reach + 1)):
            if place != here:
                neighbour = point.copy()
                neighbour[column] = levels[place]
                found.append(neighbour)
    return np.array(found)


def _log_improvement(z: float) -> float:
    """log(φ(z) + z Φ(z)), also where both terms are far below the smallest float."""
    if z < _ASYMPTOTIC_BELOW:
        return -z * z / 2 - 0.5 * math.log(2 * math.pi) - 2 * math.log(-z)
    return math.log(_density(z) + z * _share_below(z))


def _log_improvement_slope(z: float) -> float:
    if z < _ASYMPTOTIC_BELOW:
        return -z
    return _share_below(z) / (_density(z) + z * _share_below(z))


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _share_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
