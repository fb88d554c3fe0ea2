"""Tensors in numbers: what `stoker tensors show` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.cli.tensors.listing import require_step, show_shape
from stoker.cli.tensors.series import Series, Statistics, make_sparkline, show_dtype, show_kind
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors import SavedTensors, Tensor
from stoker.debugging.thinning import thin
from stoker.errors import TensorsUnreadable
from stoker.machine.terminal import make_table

MOST_TENSORS = 40
"""In a table or as values; JSON has all."""
_MOST_IN_DETAIL = 4
_MOST_STEPS = 12
_WIDTH = 32
_MOST_JSON_VALUES = 100_000  # a large weight would be gigabytes of text
_NUMBERS = ("min", "max", "mean", "std")
_SHARES = ("nan_share", "inf_share", "zero_share")
_HEAD = (*_NUMBERS, "NaN", "Inf", "zero")


def render_series(series: Sequence[Series]) -> str:
    """Few tensors step by step, many in one line each."""
    if len(series) <= _MOST_IN_DETAIL:
        return "\n\n".join("\n".join(_details(one)) for one in series)
    rows: list[tuple[str, ...]] = [("tensor", "kind", *_HEAD, "mean, step by step")]
    rows += [_row(one, len({s.worker for s in series}) > 1) for one in series]
    lines = make_table(rows, right=range(2, 2 + len(_HEAD)))
    return "\n".join([*lines, "the numbers are those of each tensor's last step"])


def series_to_json(series: Series) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": series.name,
        "worker": series.worker,
        "kind": series.description.kind,
        "module_class": series.description.module_class,
        "shape": None if series.shape is None else list(series.shape),
        "dtype": series.dtype,
        "steps": [_point_to_json(point) for point in series.points],
        "problems": list(series.problems),
    }


def read_values(
    saved: SavedTensors, names: Sequence[str], step: int, mode: Mode | None
) -> list[Tensor]:
    """Some tensors at a step, as far as they were saved there.

    Raises:
        UsageRefused: there is no such step.
    """
    require_step(saved, step, mode)
    at = saved.at(step)
    return [tensor for name in names for tensor in at.all(name)]


def render_value(tensor: Tensor) -> str:
    """As NumPy prints it, with a line above that says what it is."""
    try:
        shape, dtype = show_shape(tensor.shape), show_dtype(tensor)
        head = f"{tensor.name} ({tensor.worker}): {shape} {dtype}"
        if tensor.has_value:
            return f"{head}\n{np.array2string(tensor.value(), threshold=200)}"
        saved = [(name, show_number(tensor.reduction(name))) for name in tensor.saved_reductions]
        return "\n".join([f"{head}: the values were not saved", *make_table(saved or [("", "")])])
    except TensorsUnreadable as error:
        return f"{tensor.name} ({tensor.worker}): {error.message}"


def value_to_json(tensor: Tensor) -> dict[str, Any]:
    """The same for programs; values that are too many are left out, and that is said."""
    found: dict[str, Any] = {"name": tensor.name, "worker": tensor.worker}
    try:
        found["shape"] = None if tensor.shape is None else list(tensor.shape)
        found["dtype"] = show_dtype(tensor)
        if not tensor.has_value:
            names = tensor.saved_reductions
            return found | {"reductions": {n: _to_json(tensor.reduction(n)) for n in names}}
        if tensor.value().size > _MOST_JSON_VALUES:
            return found | {"left_out": f"more than {_MOST_JSON_VALUES:,} values"}
        return found | {"values": _nested(tensor.value().tolist())}
    except TensorsUnreadable as error:
        return found | {"problem": error.message}


def show_number(value: float | None) -> str:
    """Four digits; what is not known is a dot."""
    return "·" if value is None else f"{value:.4g}"


def show_share(share: float | None) -> str:
    """In percent; one that is small but not nothing does not become 0 %."""
    if share is None or share == 0:
        return "·" if share is None else "0"
    return "<0.1%" if share < 0.001 else f"{share:.1%}" if share < 1 else "100%"


def _details(series: Series) -> list[str]:
    about = f"{show_kind(series.description)}, {show_shape(series.shape)} {series.dtype}"
    lines = [f"{series.name} ({series.worker}): {about}"]
    spark = make_sparkline([point.main for point in series.points], 2 * _WIDTH)
    others = _others(series)
    has_mean = any(point.mean is not None for point in series.points)
    lines.append(f"{'mean' if has_mean else ''.join(others[:1])}  {spark}")
    rows: list[tuple[str, ...]] = [("step", "mode", *_HEAD, *others)]
    for point in thin(series.points, _MOST_STEPS):
        extra = [show_number(point.reductions.get(name)) for name in others]
        rows.append((str(point.step), point.mode, *_numbers(point), *extra))
    lines += make_table(rows, right={0, *range(2, len(rows[0]))})
    left_out = len(series.points) - len(rows) + 1
    lines += [f"… {left_out:,} steps between them are left out; --json has all"] * (left_out > 0)
    return lines + [f"damaged: {problem}" for problem in series.problems[:_MOST_STEPS]]


def _row(series: Series, has_workers: bool) -> tuple[str, ...]:
    name = f"{series.name} ({series.worker})" if has_workers else series.name
    spark = make_sparkline([point.main for point in series.points], _WIDTH)
    about = show_kind(series.description)
    if not series.points:
        return (name, about, *[""] * len(_HEAD), f"damaged: {series.problems[0]}")
    last = series.points[-1]
    if last.mean is None and last.reductions:
        reduction, value = next(iter(last.reductions.items()))
        spark = f"{spark} ({reduction}, now {show_number(value)})"
    return (name, about, *_numbers(last), spark)


def _numbers(point: Statistics) -> list[str]:
    numbers = [show_number(getattr(point, name)) for name in _NUMBERS]
    return [*numbers, *(show_share(getattr(point, name)) for name in _SHARES)]


def _others(series: Series) -> list[str]:
    return list(dict.fromkeys(name for point in series.points for name in point.reductions))


def _point_to_json(point: Statistics) -> dict[str, Any]:
    numbers = {name: _to_json(getattr(point, name)) for name in (*_NUMBERS, *_SHARES)}
    found = {"step": point.step, "mode": point.mode, **numbers}
    if point.reductions:
        found["reductions"] = {name: _to_json(value) for name, value in point.reductions.items()}
    return found


def _nested(value: Any) -> Any:  # noqa: ANN401 - lists of lists of numbers
    return [_nested(item) for item in value] if isinstance(value, list) else _to_json(value)


def _to_json(value: Any) -> Any:  # noqa: ANN401 - a number, or a text
    """JSON has no NaN and infinity."""
    if isinstance(value, complex):
        return str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
