"""The search space: read from a request's ParameterRanges, checked as the service checks them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.errors import SearchInvalid
from stoker.tuning.parameters import Categorical, Continuous, Integer, Parameter, Scaling

# The service's limits: hyperparameters of a job, values of a category, characters of a value.
MOST_PARAMETERS = 30
MOST_VALUES = 30  # the service's limit
_MOST_CHARACTERS = 256  # the service's limit

Ranges = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpace:
    """The tuned hyperparameters, in a fixed order."""

    parameters: tuple[Parameter, ...]

    @property
    def combinations(self) -> int | None:
        """How many different trials there are; None if a parameter is continuous."""
        product = 1
        for parameter in self.parameters:
            if parameter.count is None:
                return None
            product *= parameter.count
        return product

    def decode(self, point: Sequence[float]) -> dict[str, str]:
        """The values at a point of the unit cube, one coordinate for each parameter."""
        return {
            parameter.name: parameter.decode(position)
            for parameter, position in zip(self.parameters, point, strict=True)
        }

    def encode(self, values: Mapping[str, str]) -> tuple[float, ...] | None:
        """The point of the values; None if one is missing or outside its range."""
        point = [p.encode(values[p.name]) if p.name in values else None for p in self.parameters]
        held = tuple(position for position in point if position is not None)
        return held if len(held) == len(point) else None


def read_space(ranges: Ranges) -> SearchSpace:
    """The space of a request's `ParameterRanges`.

    Raises:
        SearchInvalid: with every mistake of the ranges.
    """
    mistakes = list(find_range_mistakes(ranges))
    if mistakes:
        raise SearchInvalid(*mistakes)
    return SearchSpace(
        parameters=tuple(
            read(row) for kind, read in _READERS.items() for row in ranges.get(kind) or ()
        )
    )


def find_range_mistakes(ranges: Ranges) -> Iterator[str]:
    """What the service refuses in `ParameterRanges`, one text for each mistake."""
    names = [str(row["Name"]) for kind in _READERS for row in ranges.get(kind) or ()]
    if not names:
        yield "ParameterRanges must have at least one range: name a hyperparameter to tune."
    if len(names) > MOST_PARAMETERS:
        yield (
            f"ParameterRanges has {len(names)} hyperparameters, but at most {MOST_PARAMETERS} can"
            " be tuned. Pass the others as static hyperparameters."
        )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"Hyperparameter '{name}' has more than one range. Keep one of them."
    for kind in ("Continuous", "Integer"):
        for row in ranges.get(f"{kind}ParameterRanges") or ():
            yield from _find_number_mistakes(row, is_integer=kind == "Integer")
    for row in ranges.get("CategoricalParameterRanges") or ():
        yield from _find_value_mistakes(row)


def _find_number_mistakes(row: Mapping[str, Any], *, is_integer: bool) -> Iterator[str]:
    name = row["Name"]
    bounds = []
    for field in ("MinValue", "MaxValue"):
        bound = _read_bound(str(row[field]), is_integer=is_integer)
        if bound is None:
            kind = "an integer" if is_integer else "a number"
            yield f"{field} of hyperparameter '{name}' must be {kind}, but is '{row[field]}'."
        else:
            bounds.append(bound)
    if len(bounds) < 2:
        return
    low, high = bounds
    if low >= high:
        yield (
            f"MinValue of hyperparameter '{name}' must be less than its MaxValue, but they are"
            f" {row['MinValue']} and {row['MaxValue']}. Widen the range, or pass a single value as"
            " a static hyperparameter."
        )
    yield from _find_scaling_mistakes(name, row.get("ScalingType"), low, high, is_integer)


def _find_scaling_mistakes(
    name: str, scaling: str | None, low: float, high: float, is_integer: bool
) -> Iterator[str]:
    if scaling == Scaling.LOGARITHMIC and low <= 0:
        yield (
            f"Logarithmic scaling of hyperparameter '{name}' needs a range above 0, but MinValue"
            f" is {low:g}. Raise MinValue, or use Linear scaling."
        )
    if scaling != Scaling.REVERSE_LOGARITHMIC:
        return
    if is_integer:
        yield (
            f"ReverseLogarithmic scaling of hyperparameter '{name}' is for continuous ranges only."
            " Use Linear or Logarithmic scaling."
        )
    elif low < 0 or high >= 1:
        yield (
            f"ReverseLogarithmic scaling of hyperparameter '{name}' needs a range within"
            f" 0 <= x < 1, but it is {low:g} to {high:g}. Narrow the range, or use Linear scaling."
        )


def _find_value_mistakes(row: Mapping[str, Any]) -> Iterator[str]:
    name, values = row["Name"], [str(value) for value in row["Values"]]
    if not 2 <= len(values) <= MOST_VALUES:
        yield (
            f"Categorical hyperparameter '{name}' must have 2 to {MOST_VALUES} values, but has"
            f" {len(values)}. Pass a single value as a static hyperparameter."
        )
    for value in sorted({value for value in values if values.count(value) > 1}):
        yield f"Categorical hyperparameter '{name}' has the value '{value}' more than once."
    for value in values:
        if len(value) > _MOST_CHARACTERS:
            yield (
                f"A value of categorical hyperparameter '{name}' has {len(value)} characters, but"
                f" at most {_MOST_CHARACTERS} are allowed: '{value[:40]}…'."
            )


def _read_bound(text: str, *, is_integer: bool) -> float | None:
    if len(text) > _MOST_CHARACTERS:
        return None
    try:
        bound = int(text) if is_integer else float(text)
    except ValueError:
        return None
    return bound if math.isfinite(bound) else None


def _read_continuous(row: Mapping[str, Any]) -> Parameter:
    return Continuous(
        name=row["Name"],
        low=float(row["MinValue"]),
        high=float(row["MaxValue"]),
        scaling=Scaling(row.get("ScalingType") or Scaling.AUTO),
    )


def _read_integer(row: Mapping[str, Any]) -> Parameter:
    return Integer(
        name=row["Name"],
        low=int(row["MinValue"]),
        high=int(row["MaxValue"]),
        scaling=Scaling(row.get("ScalingType") or Scaling.AUTO),
    )


def _read_categorical(row: Mapping[str, Any]) -> Parameter:
    return Categorical(name=row["Name"], values=tuple(map(str, row["Values"])))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Parameter]] = {
    "ContinuousParameterRanges": _read_continuous,
    "IntegerParameterRanges": _read_integer,
    "CategoricalParameterRanges": _read_categorical,
}
