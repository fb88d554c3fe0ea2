"""The minimum of a smooth function in a box: BFGS with projection on the bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Function = Callable[[Vector], tuple[float, Vector]]

# Armijo's condition: a step must bring this share of what the slope promises.
_SUFFICIENT = 1e-4
_SHORTEST = 1e-4
_FLAT = 1e-5


def find_minimum(
    function: Function, start: Vector, *, low: Vector, high: Vector, steps: int
) -> tuple[Vector, float]:
    """A local minimum near `start`, and the value there.

    Args:
        function: returns value and gradient.
        start: a point of the box.
        low: lower bounds.
        high: upper bounds.
        steps: the most iterations.
    """
    point = np.clip(start, low, high)
    value, gradient = function(point)
    inverse = np.eye(len(point))
    scale = 1.0 / max(1.0, float(np.abs(gradient).max(initial=0.0)))
    for _ in range(steps):
        held = ((point <= low) & (gradient > 0)) | ((point >= high) & (gradient < 0))
        if np.abs(np.where(held, 0.0, gradient)).max(initial=0.0) < _FLAT:
            break
        free = ~held
        direction = np.zeros_like(point)
        direction[free] = -scale * (inverse[np.ix_(free, free)] @ gradient[free])
        found = _search_line(function, point, value, gradient, direction, low, high)
        if found is None:
            break
        moved, value, after = found
        inverse = _update(inverse, moved - point, after - gradient, scale)
        scale, point, gradient = 1.0, moved, after
    return point, value


def _search_line(
    function: Function,
    point: Vector,
    value: float,
    gradient: Vector,
    direction: Vector,
    low: Vector,
    high: Vector,
) -> tuple[Vector, float, Vector] | None:
    length = 1.0
    while length > _SHORTEST:
        moved = np.clip(point + length * direction, low, high)
        found, after = function(moved)
        if found <= value + _SUFFICIENT * float(gradient @ (moved - point)):
            return (moved, found, after) if found < value else None
        length *= 0.3
    return None


def _update(inverse: Vector, step: Vector, change: Vector, scale: float) -> Vector:
    product = float(step @ change)
    # Not convex along this step: after BFGS's update the next direction could lead uphill.
    if product <= 1e-10:
        return inverse * scale
    if scale != 1.0:  # after the first step the curvature is known, at least in one direction
        inverse = inverse * product / float(change @ change)
    shift = np.eye(len(step)) - np.outer(step, change) / product
    return np.asarray(shift @ inverse @ shift.T + np.outer(step, step) / product)
