"""A Gaussian process on the unit cube: Matérn 5/2 with one length for each parameter.

Categories are compared by equality. The kernel's parameters are those of the highest posterior
density, found with analytic gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.tuning.box_minimum import find_minimum

Array = NDArray[np.float64]

_ROOT = math.sqrt(5.0)
# Points that coincide would make the covariance singular.
_JITTER = 1e-8
# The most points that the kernel's parameters are fitted to; all points are used to predict.
_MOST_TO_FIT = 70
_STEPS = 25
# From so many points on there is one valley, and time is better spent elsewhere.
_ONE_START_FROM = 50
# Priors (normal, of the logarithm): lengths grow with the square root of the dimension, or points
# of a high-dimensional cube would never be near each other.
_LENGTH_AT_ONE, _LENGTH_SPREAD = 0.6, 1.0
_AMPLITUDE_SPREAD = 0.7
_NOISE_MEDIAN, _NOISE_SPREAD = 1e-4, 2.5
_NOISE_AT_START = 0.01
_MEAN_SPREAD = 2.0
_BOUND = 8.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Posterior:
    """What is known about the function after the observations."""

    points: Array
    is_category: NDArray[np.bool_]
    weights: Array
    """1 / length² of each dimension."""
    amplitude: float
    noise: float
    inverse: Array
    """Of the covariance of the observations."""
    mean: float
    """What is expected far from all observations."""
    alpha: Array

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at points."""
        squares = self._squares(points)
        cross = self.amplitude * _matern(squares)
        spread = self.amplitude - ((cross @ self.inverse) * cross).sum(axis=1)
        return self.mean + cross @ self.alpha, np.sqrt(np.maximum(spread, 1e-12))

    def predict_mean(self, points: Array) -> Array:
        """The mean alone."""
        cross = self.amplitude * _matern(self._squares(points))
        return np.asarray(self.mean + cross @ self.alpha)

    def predict_slopes(self, point: Array) -> tuple[float, float, Array, Array]:
        """Mean, deviation, and how they change along each dimension, at one point."""
        squares = self._squares(point[None])[0]
        cross = self.amplitude * _matern(squares)
        pull = self.inverse @ cross
        mean = self.mean + float(cross @ self.alpha)
        deviation = math.sqrt(max(self.amplitude - float(cross @ pull), 1e-12))
        # Through the square of the distance, whose slope is 2 w (x - x').
        gaps = np.where(self.is_category, 0.0, (point - self.points) * self.weights * 2)
        slopes = gaps * (self.amplitude * _matern_slope(squares))[:, None]
        return mean, deviation, slopes.T @ self.alpha, -(slopes.T @ pull) / deviation

    def find_nearest(self, points: Array) -> Array:
        """The squared distance of each point to its nearest observation, in lengths."""
        return np.asarray(self._squares(points).min(axis=1))

    def _squares(self, points: Array) -> Array:
        return _weighted_squares(points, self.points, self.weights, self.is_category)


def fit(points: Array, values: Array, is_category: NDArray[np.bool_]) -> Posterior:
    """The process that explains the observations.

    Args:
        points: one row for each observation; categories as numbers.
        values: with mean about 0 and deviation about 1.
        is_category: which columns are categories.
    """
    chosen = choose_points(values, _MOST_TO_FIT)
    parameters = _fit_parameters(points[chosen], values[chosen], is_category)
    weights = np.exp(parameters[:-2])
    amplitude, noise = math.exp(parameters[-2]), math.exp(parameters[-1])
    return condition(points, values, is_category, weights, amplitude, noise)


def condition(
    points: Array,
    values: Array,
    is_category: NDArray[np.bool_],
    weights: Array,
    amplitude: float,
    noise: float,
) -> Posterior:
    """The process with given parameters after the observations."""
    squares = _weighted_squares(points, points, weights, is_category)
    covariance = amplitude * _matern(squares)
    covariance[np.diag_indices(len(points))] += noise + _JITTER * amplitude
    inverse = np.linalg.inv(covariance)
    # numpy.linalg.inv leaves the two halves different in the last bits.
    inverse = (inverse + inverse.T) / 2
    mean = _estimate_mean(inverse, values)
    return Posterior(
        points=points,
        is_category=is_category,
        weights=weights,
        amplitude=amplitude,
        noise=noise,
        inverse=inverse,
        mean=mean,
        alpha=inverse @ (values - mean),
    )


def _estimate_mean(inverse: NDArray[np.floating], values: Array) -> float:
    """The most probable mean of the process (generalised least squares, with a prior around 0).

    Trials gather where costs are low. Their plain average would promise low costs everywhere
    else, too, and send every other trial into an empty corner.
    """
    rows = inverse.sum(axis=0)
    return float(rows @ values) / (float(rows.sum()) + _MEAN_SPREAD**-2)


def choose_points(values: Array, most: int) -> NDArray[np.intp]:
    """Which observations to keep of too many: the best half, and an even choice of the others."""
    if len(values) <= most:
        return np.arange(len(values))
    order = np.argsort(values, kind="stable")
    best, others = order[: most // 2], order[most // 2 :]
    even = np.linspace(0, len(others) - 1, most // 2).astype(int)
    return np.sort(np.concatenate([best, others[even]]))


def _fit_parameters(points: Array, values: Array, is_category: NDArray[np.bool_]) -> Array:
    """Logarithms of 1 / length² of each dimension, of the amplitude and of the noise."""
    dimensions = points.shape[1]
    gaps = points[:, None, :] - points[None, :, :]
    gaps = np.where(is_category, gaps != 0, gaps**2).reshape(-1, dimensions)
    center = np.empty(dimensions + 2)
    center[:-2] = -2 * math.log(_LENGTH_AT_ONE) - math.log(dimensions)
    center[-2:] = 0.0, math.log(_NOISE_MEDIAN)
    spread = np.full(dimensions + 2, 2 * _LENGTH_SPREAD)
    spread[-2:] = _AMPLITUDE_SPREAD, _NOISE_SPREAD

    def loss(parameters: Array) -> tuple[float, Array]:
        value, slope = _negative_log_likelihood(parameters, gaps, values)
        off = (parameters - center) / spread
        return value + 0.5 * float(off @ off), slope + off / spread

    low, high = center - _BOUND, center + _BOUND
    # The values have deviation 1: more noise than that would explain all of them.
    high[-1] = 0.0
    # With little noise the likelihood is flat in it, so the way starts with more than expected.
    starts = [center.copy(), center.copy()]
    starts[0][-1] = math.log(_NOISE_AT_START)
    starts[1][:-2] += 2.0  # shorter lengths: another valley
    if len(values) >= _ONE_START_FROM:
        starts.pop()
    found = [find_minimum(loss, s, low=low, high=high, steps=_STEPS) for s in starts]
    return min(found, key=lambda pair: pair[1])[0]


def _negative_log_likelihood(parameters: Array, gaps: Array, values: Array) -> tuple[float, Array]:
    count = len(values)
    weights = np.exp(parameters[:-2])
    amplitude, noise = math.exp(parameters[-2]), math.exp(parameters[-1])
    squares = (gaps @ weights).reshape(count, count)
    kernel = amplitude * _matern(squares)
    diagonal = np.diag_indices(count)
    kernel[diagonal] += _JITTER * amplitude
    covariance = kernel.copy()
    covariance[diagonal] += noise
    try:
        factor, inverse = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    except np.linalg.LinAlgError:  # singular as far as floats can tell: not the way to go
        return math.inf, np.zeros_like(parameters)
    mean = _estimate_mean(inverse, values)
    alpha = inverse @ (values - mean)
    # The mean is the best one for these parameters, so it adds nothing to the slopes.
    value = 0.5 * (float((values - mean) @ alpha) + (mean / _MEAN_SPREAD) ** 2)
    value += float(np.log(np.diag(factor)).sum())
    outer = inverse - np.outer(alpha, alpha)
    slopes = np.empty_like(parameters)
    pull = (outer * (amplitude * _matern_slope(squares))).ravel()
    slopes[:-2] = 0.5 * weights * (pull @ gaps)
    slopes[-2] = 0.5 * float((outer * kernel).sum())
    slopes[-1] = 0.5 * noise * float(np.trace(outer))
    return value, slopes


def _weighted_squares(
    left: Array, right: Array, weights: Array, is_category: NDArray[np.bool_]
) -> Array:
    roots = np.sqrt(weights[~is_category])
    a, b = left[:, ~is_category] * roots, right[:, ~is_category] * roots
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * (a @ b.T)
    for column in np.flatnonzero(is_category):
        squares = squares + weights[column] * (left[:, column][:, None] != right[:, column][None])
    # Rounding may leave it just below 0, and a root is taken of it.
    return np.asarray(np.maximum(squares, 0.0))


def _matern(squares: Array) -> Array:
    distances = _ROOT * np.sqrt(squares)
    return np.asarray((1 + distances + (5 / 3) * squares) * np.exp(-distances))


def _matern_slope(squares: Array) -> Array:
    """By the square of the distance."""
    distances = _ROOT * np.sqrt(squares)
    return np.asarray((-5 / 6) * (1 + distances) * np.exp(-distances))
