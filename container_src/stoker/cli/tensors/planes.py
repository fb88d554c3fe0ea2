"""A tensor's value as flat pictures: what the 3-D view draws of it at one step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stoker.debugging.description import Description
from stoker.machine.failures import UsageRefused

Sample = int | Literal["mean", "all"]
Array = NDArray[Any]
_BATCHED = ("input", "output", "other")
_COLOURS = (1, 3, 4)
"""Channels that a picture may have."""
NOT_FINITE = 0
"""The level of NaN and infinity; finite values have those from 1."""
_LEVELS = 254  # of a byte: 0 is left for what is not finite


@dataclass(frozen=True, kw_only=True, slots=True)
class Planes:
    """Some pictures of equal size: levels in 8 bits, count × height × width."""

    levels: NDArray[np.uint8]
    low: float
    """The value at level 1."""
    high: float
    """The value at level 255."""


def read_sample(text: str) -> Sample:
    """
    Raises:
        UsageRefused: it is none.
    """
    if text == "all":
        return "all"
    try:
        number = int(text)
    except ValueError:
        number = -2
    if number < -1:
        raise UsageRefused(
            f"--sample {text} is not a sample of a batch", fix="0 or more, -1 for the mean, or all"
        )
    return "mean" if number == -1 else number


def cut_planes(value: Array, description: Description, sample: Sample) -> Array:
    """Count × height × width of what is to be drawn.

    Of tensors with a batch in front, the sample is taken first. What is left is a picture for
    each channel: of C×H×W, or of H×W×C where only that can be meant. Parameters have no batch:
    a convolution's weight is a picture for each pair of channels. A vector is one row.

    Raises:
        IndexError: there is no such sample.
    """
    if value.dtype.kind == "c":
        value = np.abs(value)
    if _has_channels_last(value, description):
        value = np.moveaxis(value, -1, 1)
    if description.kind in _BATCHED and value.ndim:
        value = _take(value, sample)
    if value.ndim < 2:
        return value.reshape(1, 1, -1)
    return value.reshape(-1, *value.shape[-2:])


def _has_channels_last(value: Array, description: Description) -> bool:
    is_picture = description.kind in _BATCHED and value.ndim == 4
    return is_picture and value.shape[3] in _COLOURS and value.shape[1] not in _COLOURS


def _take(value: Array, sample: Sample) -> Array:
    if sample == "all":
        # Each sample's channels one after the other; of vectors, a row for each sample.
        return value if value.ndim < 4 else value.reshape(-1, *value.shape[2:])
    if sample == "mean":
        with np.errstate(all="ignore"):
            # float16 ends at 65,504: its own sum over a batch would be infinite.
            mean: Array = value.mean(axis=0, dtype=np.float64)
        return mean
    return np.asarray(value[sample])


def shrink(planes: Array, most_side: int) -> Array:
    """Means of neighbours, so that no side is longer; a row may be longer than a square."""
    height, width = planes.shape[1:]
    most_width = most_side * most_side if height == 1 else most_side
    if height <= most_side and width <= most_width:
        return planes
    whole = planes.astype(np.float64)
    with np.errstate(all="ignore"):
        return _shrink(whole, most_side, most_width)


def _shrink(whole: Array, most_height: int, most_width: int) -> Array:
    for axis, most in ((1, most_height), (2, most_width)):
        size = whole.shape[axis]
        if size > most:
            edges = np.arange(most) * size // most
            counts = np.diff([*edges, size]).reshape([-1 if a == axis else 1 for a in range(3)])
            # `edges` grow strictly, since size > most: reduceat would give a single value for
            # equal ones.
            whole = np.add.reduceat(whole, edges, axis=axis) / counts
    return whole


def quantise(planes: Array) -> Planes:
    """In 8 bits between the least and the greatest of the finite values."""
    values = planes.astype(np.float64)
    is_finite = np.isfinite(values)
    finite = values[is_finite]
    if not finite.size:
        return Planes(levels=np.zeros(planes.shape, np.uint8), low=0.0, high=0.0)
    low, high = float(finite.min()), float(finite.max())
    # Halved: the difference of two large numbers may be infinite.
    span = high / 2 - low / 2 or math.inf
    places = np.where(is_finite, (values / 2 - low / 2) / span, 0.0)
    levels = np.where(is_finite, 1 + np.round(places * _LEVELS), NOT_FINITE)
    return Planes(levels=levels.astype(np.uint8), low=low, high=high)
