"""How much each hyperparameter matters, with the uncertainty of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stoker.tuning.acquisition import make_lattice
from stoker.tuning.bayesian import count_first_trials, read_observations, standardize
from stoker.tuning.gaussian_process import fit
from stoker.tuning.study import Study, Trial

Array = NDArray[np.float64]

_SAMPLES = 400
_RESAMPLES = 20
_SHARE = 0.8
_MOST_TRIALS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Importance:
    """Of one hyperparameter."""

    name: str
    share: float
    """Of the variance over the whole space that is gone if this one is held, with its part of
    interactions: 0 to 1, and together more than 1 where hyperparameters interact."""
    low: float
    high: float
    """Four of five estimates from random parts of the trials are between these."""


def estimate_importance(study: Study, trials: Sequence[Trial]) -> list[Importance]:
    """Most important first; empty with too few trials to say anything."""
    seen = read_observations(replace(study, earlier=()), trials)
    points, costs = seen.points, seen.costs
    dimensions = len(study.space.parameters)
    if len(costs) < max(8, count_first_trials(dimensions)) or not np.ptp(costs):
        return []
    lattice = make_lattice(study.space.parameters)
    values = standardize(costs, typical=float(np.median(costs)))
    # Always the same: a page that is rendered again shows the same numbers.
    source = np.random.default_rng(0)
    cube = [lattice.snap(source.random((_SAMPLES, dimensions))) for _ in range(2)]
    size = min(max(6, round(_SHARE * len(values))), _MOST_TRIALS)
    shares = np.array(
        [
            _estimate_shares(points[part], values[part], lattice.is_category, *cube)
            for part in (source.permutation(len(values))[:size] for _ in range(_RESAMPLES))
        ]
    )
    low, high = np.quantile(shares, [0.1, 0.9], axis=0).tolist()
    found = [
        Importance(name=parameter.name, share=share, low=low[i], high=high[i])
        for i, (parameter, share) in enumerate(
            zip(study.space.parameters, shares.mean(axis=0).tolist(), strict=True)
        )
    ]
    return sorted(found, key=lambda one: -one.share)


def _estimate_shares(
    points: Array, values: Array, is_category: NDArray[np.bool_], first: Array, second: Array
) -> Array:
    """Total effects of the fitted process (Jansen's estimator)."""
    process = fit(points, values, is_category)
    here = process.predict_mean(first)
    variance = float(here.var()) or 1.0
    shares = []
    for column in range(points.shape[1]):
        moved = first.copy()
        moved[:, column] = second[:, column]
        shares.append(float(((process.predict_mean(moved) - here) ** 2).mean()) / 2 / variance)
    return np.asarray(np.minimum(shares, 1.0))
