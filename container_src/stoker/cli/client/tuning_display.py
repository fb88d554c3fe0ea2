"""A search as a table that is redrawn, as lines in a pipe, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.machine.terminal import Terminal, make_table

_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_CHARACTERS = 16
_SPARE_LINES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRow:
    """One trial as it is shown."""

    number: int
    job: str
    parameters: Mapping[str, str]
    state: str
    curve: tuple[float, ...]
    is_best: bool
    goal: str = "Maximize"
    """Maximize or Minimize."""

    definition: str = ""
    """The name of its training job definition; empty if the search has only one."""

    @property
    def last(self) -> float | None:
        """The latest value of the objective."""
        return self.curve[-1] if self.curve else None

    @property
    def top(self) -> float | None:
        """The best value of the objective."""
        choose = max if self.goal == "Maximize" else min
        return choose(self.curve, default=None)


def read_objectives(description: Mapping[str, Any]) -> dict[str, Mapping[str, str]]:
    """Type and MetricName of each training job definition, by its name."""
    config = description["HyperParameterTuningJobConfig"]
    if several := description.get("TrainingJobDefinitions"):
        return {each["DefinitionName"]: each["TuningObjective"] for each in several}
    return {"": config["HyperParameterTuningJobObjective"]}


def make_rows(
    description: Mapping[str, Any],
    summaries: Sequence[Mapping[str, Any]],
    curves: Mapping[str, Sequence[float]],
) -> list[TrialRow]:
    """The trials of a search, from what the API says."""
    best = description.get("BestTrainingJob", {}).get("TrainingJobName")
    objectives = read_objectives(description)
    return [
        TrialRow(
            number=number,
            job=each["TrainingJobName"],
            parameters=each["TunedHyperParameters"],
            state=each["TrainingJobStatus"],
            curve=tuple(curves.get(each["TrainingJobName"], ())),
            is_best=each["TrainingJobName"] == best,
            goal=objectives[each.get("TrainingJobDefinitionName", "")]["Type"],
            definition=each.get("TrainingJobDefinitionName", ""),
        )
        for number, each in enumerate(summaries, 1)
    ]


def render_table(rows: Sequence[TrialRow]) -> list[str]:
    """The table as lines; the best trial has a star."""
    names = list(dict.fromkeys(name for row in rows for name in row.parameters))
    are_several = any(row.definition for row in rows)
    of = ["definition"] if are_several else []
    head = ["", "trial", *of, *names, "last", "best", "state", "curve"]
    body = [
        [
            "*" if row.is_best else "",
            str(row.number),
            *([row.definition] if are_several else []),
            *(_short(row.parameters.get(name, "")) for name in names),
            _number(row.last),
            _number(row.top),
            row.state,
            make_sparkline(row.curve),
        ]
        for row in rows
    ]
    return make_table([head, *body])


def make_sparkline(curve: Sequence[float]) -> str:
    """A curve as small blocks; a long one is thinned.

    Example:
        >>> make_sparkline([0, 1, 2, 7])
        '▁▂▃█'
    """
    if not curve:
        return ""
    every = max(1, -(-len(curve) // _CURVE_CHARACTERS))
    shown = curve[every - 1 :: every]
    low, high = min(shown), max(shown)
    steps = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[round((value - low) / (high - low) * steps) if high > low else 0]
        for value in shown
    )


def render_csv(rows: Sequence[TrialRow]) -> str:
    """One line for each trial."""
    names = list(dict.fromkeys(name for row in rows for name in row.parameters))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    of = ["definition"] if any(row.definition for row in rows) else []
    writer.writerow(["trial", "job", *of, *names, "objective", "values", "state"])
    for row in rows:
        values = [row.parameters.get(name, "") for name in names]
        last = "" if row.last is None else repr(row.last)
        definition = [row.definition] if of else []
        writer.writerow(
            [row.number, row.job, *definition, *values, last, len(row.curve), row.state]
        )
    return text.getvalue()


class LiveTable:
    """Redraws the table on a terminal; in a pipe, a line for each change of a trial."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._drawn = 0
        self._said: dict[int, str] = {}

    def show(self, rows: Sequence[TrialRow]) -> None:
        """Show how the trials are now."""
        if not self._terminal.is_live:
            self._say_changes(rows)
            return
        size = shutil.get_terminal_size((80, 24))
        head, *body = render_table(rows)
        # Rows that have left the screen cannot be drawn over: only the newest that fit are drawn.
        kept = body[-max(1, size.lines - _SPARE_LINES) :]
        # A line that wraps would count as two when the cursor goes up again.
        lines = [line[: size.columns - 1] for line in (head, *kept)]
        self._terminal.block(lines, replaces=self._drawn)
        self._drawn = len(lines)

    def line(self, text: str) -> None:
        """A line that stays, above the table."""
        if self._terminal.is_live:
            self._terminal.block([text], replaces=self._drawn)
            self._drawn = 0
        else:
            self._terminal.line(text)

    def _say_changes(self, rows: Sequence[TrialRow]) -> None:
        for row in rows:
            if self._said.get(row.number) == row.state:
                continue
            self._said[row.number] = row.state
            values = " ".join(f"{name}={_short(v)}" for name, v in row.parameters.items())
            last = "" if row.last is None else f" value {_number(row.last)}"
            self._terminal.line(f"trial {row.number} {row.state}{last}  {values}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _short(text: str) -> str:
    plain = text.strip('"')
    try:
        return plain if plain.lstrip("+-").isdecimal() else f"{float(plain):.4g}"
    except ValueError:
        return plain[:20]
