"""Which tensors were saved: table and JSON of `stoker tensors ls`, and choosing from them."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stoker.cli.tensors.series import show_dtype, show_kind
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors import SavedTensors, Step
from stoker.debugging.tensors.layout import COLLECTIONS, INDEX
from stoker.errors import TensorsUnreadable
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_table
from stoker.machine.units import show_size

_MARKS = (INDEX, COLLECTIONS.partition("/")[0])
_MOST_ROWS = 200
_MOST_PROBLEMS = 5
_AT_ONCE = 8  # shapes from S3 are a small request each


def make_listing(
    saved: SavedTensors, place: str, *, regex: str, mode: Mode | None, is_whole: bool
) -> dict[str, Any]:
    """All for programs.

    Args:
        saved: the run.
        place: as the user calls it.
        regex: of names.
        mode: steps of this one alone.
        is_whole: False leaves out what a table would not show.

    Raises:
        UsageRefused: nothing is there, or nothing matches.
    """
    require_tensors(saved, place)
    require_mode(saved, mode)
    tally = _Tally(saved, mode)
    names = choose_names(sorted(tally.rows), regex)
    shown = names if is_whole else names[:_MOST_ROWS]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        tensors = list(pool.map(tally.make_row, shown))
    steps = saved.steps(mode)
    return {
        "place": place,
        "has_ended": saved.has_ended,
        "workers": list(saved.workers),
        "steps": {m: len(saved.steps(m)) for m in MODES if saved.steps(m) and mode in (None, m)},
        "first_step": steps[0] if steps else None,
        "last_step": steps[-1] if steps else None,
        "size_bytes": sum(tally.rows[name].size_bytes for name in names),
        "collections": {
            name: len(collection.tensor_names)
            for name, collection in sorted(saved.collections.items())
        },
        "tensor_count": len(names),
        "tensors": tensors,
        "problems": tally.problems,
    }


def render_listing(listing: Mapping[str, Any]) -> str:
    """The same for people."""
    rows = [_HEAD, *map(_cells, listing["tensors"])]
    lines = make_table(rows, right={3, 4, 5, 6}) if listing["tensors"] else ["no tensors yet"]
    left_out = listing["tensor_count"] - len(listing["tensors"])
    if left_out:
        lines.append(f"… and {left_out:,} more: narrow it by --name, or take --json")
    problems = listing["problems"]
    lines += ["", f"{len(problems)} damaged:", *problems[:_MOST_PROBLEMS]] if problems else []
    return "\n".join([*lines, "", *_summary(listing)])


class _Row:
    __slots__ = ("first_step", "last", "size_bytes", "steps")

    def __init__(self, first_step: int) -> None:
        self.first_step = first_step
        self.last: Step
        self.size_bytes = self.steps = 0


class _Tally:
    """Reads every index once."""

    def __init__(self, saved: SavedTensors, mode: Mode | None) -> None:
        self._describe = saved.chooser.describe
        self.rows: dict[str, _Row] = {}
        self.problems = [error.message for error in saved.damaged.values()]
        for step in saved.steps(mode):
            try:
                self._add(saved.at(step))
            except TensorsUnreadable as error:
                self.problems.append(error.message)

    def _add(self, step: Step) -> None:
        for name in step.names:
            row = self.rows.get(name)
            if row is None:
                row = self.rows[name] = _Row(step.step)
            row.last = step
            row.steps += 1
            row.size_bytes += sum(tensor.size_bytes for tensor in step.all(name))

    def make_row(self, name: str) -> dict[str, Any]:
        row = self.rows[name]
        tensors = row.last.all(name)
        shape, dtype, problem = None, "", ""
        try:
            shape, dtype = tensors[0].shape, show_dtype(tensors[0])
        except TensorsUnreadable as error:
            problem = error.message
            self.problems.append(problem)
        description = self._describe(name)
        return {
            "name": name,
            "kind": description.kind,
            "module_class": description.module_class,
            "about": show_kind(description),
            "shape": None if shape is None else list(shape),
            "dtype": dtype,
            "has_value": tensors[0].has_value,
            "workers": [tensor.worker for tensor in tensors],
            "steps": row.steps,
            "first_step": row.first_step,
            "last_step": row.last.step,
            "size_bytes": row.size_bytes,
            "problem": problem,
        }


_HEAD = ("name", "kind", "shape", "steps", "first", "last", "size", "dtype")


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = (f"{row['steps']:,}", str(row["first_step"]), str(row["last_step"]))
    kind = "damaged" if row["problem"] else row["dtype"]
    size = show_size(row["size_bytes"])
    return (row["name"], row["about"], show_shape(row["shape"]), *numbers, size, kind)


def show_shape(shape: Sequence[int] | None) -> str:
    """`8×3×3`, `scalar`."""
    return "?" if shape is None else "×".join(map(str, shape)) or "scalar"


def _summary(listing: Mapping[str, Any]) -> list[str]:
    steps = ", ".join(f"{count:,} {mode}" for mode, count in listing["steps"].items()) or "none"
    span = f" ({listing['first_step']}–{listing['last_step']})" if listing["steps"] else ""
    collections = ", ".join(f"{name} {count}" for name, count in listing["collections"].items())
    workers = listing["workers"]
    named = ", ".join(workers) if len(workers) < 5 else f"{workers[0]} … {workers[-1]}"
    state = "has ended" if listing["has_ended"] else "is running, or was killed: no end is marked"
    lines = [
        ("tensors", f"{listing['tensor_count']:,}, {show_size(listing['size_bytes'])}"),
        ("steps", f"{steps}{span}"),
        ("collections", collections or "none"),
        ("workers", f"{len(workers)} ({named})" if workers else "none"),
        ("the run", state),
    ]
    return make_table(lines)


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
            f"{option} {text!r} is not a valid regular expression: {error}",
            fix=f"to match the text literally: {option} '{re.escape(text)}'",
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
    # The letters of a regex that are not part of a name would only make all names distant.
    plain = re.sub(r"\\.|[^\w./]", "", regex).lower()
    by_lower = {name.lower(): name for name in names}
    inside = [name for lower, name in by_lower.items() if plain and plain in lower]
    near = difflib.get_close_matches(plain, by_lower, n=_NEAR, cutoff=0.3)
    return (inside or [by_lower[name] for name in near] or list(names))[:_NEAR]


def _join(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def require_tensors(saved: SavedTensors, place: str) -> None:
    """
    Raises:
        UsageRefused: none were saved there; says what is there instead.
    """
    if saved.steps() or saved.collections:
        return
    if saved.damaged:
        raise UsageRefused(
            f"{place} holds saved tensors, but none of its {len(saved.damaged)} index files can"
            f" be read: {next(iter(saved.damaged.values())).message}",
            fix="copy the folder again",
        )
    raise UsageRefused(
        f"there are no saved tensors in {place}: {_content(saved)}", fix=_near(saved)
    )


def _content(saved: SavedTensors) -> str:
    names = sorted(entry.name for entry in Path(saved.folder).iterdir())
    if not names:
        return "there is nothing"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"there is {', '.join(names[:5])}{more}"


def _near(saved: SavedTensors) -> str:
    """Jobs put them a folder or two deeper."""
    for pattern in ("*", "*/*"):
        # Not pathlib's: those raise where a folder may not be looked into, or has just gone.
        for folder in sorted(glob.glob(f"{glob.escape(str(saved.folder))}/{pattern}")):
            if all(os.path.isdir(f"{folder}/{mark}") for mark in _MARKS):
                return f"did you mean {os.path.relpath(folder, saved.folder)} in it?"
    return "name the folder that holds `index`, `events` and `collections`"
