"""One tuned hyperparameter of each kind, and its place on the unit interval.

The search works on the unit interval: the scaling is applied here, and an integer or a category
owns an interval of its own, so that uniform points give uniform values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

_AUTO_LOGARITHMIC_FROM = 100.0


class Scaling(StrEnum):
    """How a numeric range is searched, as the API spells it."""

    AUTO = "Auto"
    LINEAR = "Linear"
    LOGARITHMIC = "Logarithmic"
    REVERSE_LOGARITHMIC = "ReverseLogarithmic"


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuous:
    """A number between two bounds."""

    name: str
    low: float
    high: float
    scaling: Scaling = Scaling.AUTO

    @property
    def count(self) -> int | None:
        """How many values there are; None means more than anyone tries."""
        return None

    def decode(self, position: float) -> str:
        """The value at a position of the unit interval, as the service writes it."""
        warp, unwarp = _WARPS[resolve_scaling(self)]
        low, high = warp(self.low), warp(self.high)
        value = unwarp(low * (1 - position) + high * position)
        return repr(float(min(max(value, self.low), self.high)))

    def value_at(self, index: int) -> str:
        """Not for ranges without a count."""
        raise TypeError(f"'{self.name}' is continuous: it has no values that can be listed")

    def encode(self, text: str) -> float | None:
        """The position of a value; None if it is not one of this range."""
        value = _read_number(text)
        if value is None or not self.low <= value <= self.high:
            return None
        warp, _ = _WARPS[resolve_scaling(self)]
        return _locate(warp(value), warp(self.low), warp(self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class Integer:
    """A whole number between two bounds, both included."""

    name: str
    low: int
    high: int
    scaling: Scaling = Scaling.AUTO

    @property
    def count(self) -> int | None:
        """How many values there are."""
        return self.high - self.low + 1

    def decode(self, position: float) -> str:
        """The value at a position of the unit interval, as the service writes it."""
        warp, unwarp = _WARPS[resolve_scaling(self)]
        # Half a unit more on both sides: otherwise the bounds would have half the chance.
        low, high = warp(self.low - 0.5), warp(self.high + 0.5)
        value = round(unwarp(low * (1 - position) + high * position))
        return str(min(max(value, self.low), self.high))

    def value_at(self, index: int) -> str:
        """One of the values by its index."""
        return str(self.low + index)

    def encode(self, text: str) -> float | None:
        """The position of a value; None if it is not one of this range."""
        value = _read_number(text)
        if value is None or value != int(value) or not self.low <= value <= self.high:
            return None
        warp, _ = _WARPS[resolve_scaling(self)]
        return _locate(warp(value), warp(self.low - 0.5), warp(self.high + 0.5))


@dataclass(frozen=True, kw_only=True, slots=True)
class Categorical:
    """One of several texts, kept as they were given (SDK v2 puts JSON quotes around them)."""

    name: str
    values: tuple[str, ...]

    @property
    def count(self) -> int | None:
        """How many values there are."""
        return len(self.values)

    def decode(self, position: float) -> str:
        """The value at a position of the unit interval."""
        return self.values[min(int(position * len(self.values)), len(self.values) - 1)]

    def value_at(self, index: int) -> str:
        """One of the values by its index."""
        return self.values[index]

    def encode(self, text: str) -> float | None:
        """The middle of the value's interval; None if it is not one of the values."""
        if text not in self.values:
            return None
        return (self.values.index(text) + 0.5) / len(self.values)


Parameter = Continuous | Integer | Categorical


def resolve_scaling(parameter: Continuous | Integer) -> Scaling:
    """The scaling that is used: the service does not publish what `Auto` chooses."""
    if parameter.scaling is not Scaling.AUTO:
        return parameter.scaling
    is_wide = parameter.low > 0 and parameter.high / parameter.low >= _AUTO_LOGARITHMIC_FROM
    return Scaling.LOGARITHMIC if is_wide else Scaling.LINEAR


def _locate(value: float, low: float, high: float) -> float:
    # Halves, because the width of a range may be more than the largest float.
    return min(max((value / 2 - low / 2) / (high / 2 - low / 2), 0.0), 1.0)


def _read_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _same(value: float) -> float:
    return value


def _reverse_logarithm(value: float) -> float:
    return -math.log1p(-value)


def _reverse_exponential(value: float) -> float:
    return -math.expm1(-value)


_Warp = Callable[[float], float]
_WARPS: Mapping[Scaling, tuple[_Warp, _Warp]] = {
    Scaling.LINEAR: (_same, _same),
    Scaling.LOGARITHMIC: (math.log, math.exp),
    Scaling.REVERSE_LOGARITHMIC: (_reverse_logarithm, _reverse_exponential),
}
