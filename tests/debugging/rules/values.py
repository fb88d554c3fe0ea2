"""Arrays of every kind for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

REPEATABLE = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""The same examples on every machine, and no matter how slow it is."""

FLOATS = st.floats(width=32)
"""With NaN, infinities, zeros of both signs and numbers that are hardly there."""
SHAPES = numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)

ODD = {
    "number": np.float32(0.0),
    "empty": np.zeros((0, 3), np.float32),
    "empty_inside": np.zeros((3, 0), np.float32),
    "nan": np.full((2, 3), np.nan, np.float32),
    "infinite": np.array([[np.inf, -np.inf]], np.float32),
    "whole_numbers": np.array([[1, -2]], np.int64),
    "bytes": np.array([[1, 255]], np.uint8),
    "booleans": np.array([[True, False]]),
    "half": np.array([[1e-7, 6e4]], np.float16),
    "largest": np.full((2, 2), np.finfo(np.float32).max, np.float32),
}
"""What a rule has to survive."""


def any_array(
    elements: st.SearchStrategy[float] = FLOATS,
    shapes: st.SearchStrategy[tuple[int, ...]] | tuple[int, ...] = SHAPES,
) -> st.SearchStrategy[np.ndarray]:
    """float32 arrays of 0 to 3 dimensions, empty ones too."""
    return numpy_strategies.arrays(np.float32, shapes, elements=elements)


def any_tensors(
    *names: str, elements: st.SearchStrategy[float] = FLOATS
) -> st.SearchStrategy[dict[str, np.ndarray]]:
    """Some of the names, each with an array."""
    return st.fixed_dictionaries({}, optional={name: any_array(elements) for name in names})
