"""Which tensors and steps the user means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors import SavedTensors
from stoker.host.failures import UsageRefused

_NEAR = 5


def compile_regex(text: str, option: str = "--name") -> re.Pattern[str]:
    """
    Raises:
        UsageRefused: it does not compile; says where.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageRefused(
            f"{option} {text!r} is no regular expression: {error}",
            fix=f"to find these very letters: {option} '{re.escape(text)}'",
        ) from None


def choose_names(names: Sequence[str], regex: str, option: str = "--name") -> list[str]:
    """Those whose name the regex is found in; all when it is empty.

    Raises:
        UsageRefused: it matches none; names the nearest.
    """
    pattern = compile_regex(regex, option)
    chosen = [name for name in names if pattern.search(name)]
    if chosen or not names:
        return chosen
    near = _nearest(regex, names)
    raise UsageRefused(
        f"{option} {regex!r} matches none of the {len(names):,} tensors",
        fix=f"near it are: {', '.join(near)}; `stoker tensors ls` lists all",
    )


def require_mode(saved: SavedTensors, mode: Mode | None) -> None:
    """
    Raises:
        UsageRefused: no step of this mode was saved.
    """
    if mode is not None and saved.steps() and not saved.steps(mode):
        there = [m for m in MODES if saved.steps(m)]
        raise UsageRefused(
            f"no step of mode {mode} was saved", fix=f"leave --mode out, or one of {_join(there)}"
        )


def require_step(saved: SavedTensors, step: int, mode: Mode | None) -> None:
    """
    Raises:
        UsageRefused: it was not saved; names the nearest that were.
    """
    steps = saved.steps(mode)
    if step not in steps:
        near = sorted(sorted(steps, key=lambda s: abs(s - step))[:_NEAR])
        raise UsageRefused(
            f"no tensors were saved at step {step}" + (f" of mode {mode}" if mode else ""),
            fix=f"steps are counted over all modes; the nearest are {_join(near)}",
        )


def _nearest(regex: str, names: Sequence[str]) -> list[str]:
    # The letters of a regex that are no part of a name would only make all names far.
    plain = re.sub(r"\\.|[^\w./]", "", regex).lower()
    by_lower = {name.lower(): name for name in names}
    inside = [name for lower, name in by_lower.items() if plain and plain in lower]
    near = difflib.get_close_matches(plain, by_lower, n=_NEAR, cutoff=0.3)
    return (inside or [by_lower[name] for name in near] or list(names))[:_NEAR]


def _join(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
