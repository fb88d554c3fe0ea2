"""What every benchmark prints: figures, each with its peer, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Json = dict[str, object]


class CannotMeasure(Exception):
    """Something a benchmark needs is not there, or went wrong; the text says what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One thing measured. Smaller is better, always."""

    name: str
    ours: float
    peer: float
    unit: str

    goal: float | None = None
    """The ratio asked for; None where the figure is only worth knowing."""

    others: Mapping[str, float] = field(default_factory=dict)
    """More columns, by heading: the machine's own limit, another peer."""

    note: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.peer

    @property
    def is_met(self) -> bool:
        return self.goal is None or self.ratio <= self.goal

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "ours": round(self.ours, 4),
            "peer": round(self.peer, 4),
            "unit": self.unit,
            "ratio": round(self.ratio, 4),
            "goal": self.goal,
            "others": {name: round(number, 4) for name, number in self.others.items()},
            "note": self.note,
        }


def run(
    measure: Callable[[argparse.Namespace], Sequence[Figure]],
    parser: argparse.ArgumentParser,
    *,
    peer: str,
) -> int:
    """The `main` of a benchmark: measures and prints.

    Only figures go to stdout; progress goes to stderr.

    Args:
        measure: Gets the arguments, returns the figures.
        parser: The benchmark's own options; `--json` is added here.
        peer: Heading of the peer's column.

    Returns:
        The exit code: 3 when it could not measure.
    """
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    try:
        figures = measure(args)
    except CannotMeasure as error:
        remark(str(error))
        return 3
    print(json.dumps(to_json(figures), indent=2) if args.json else render(figures, peer=peer))
    return 0


def to_json(figures: Sequence[Figure]) -> Json:
    """`figures` holds what has a goal, so that a reader may compare each; `also` the rest."""
    return {
        "figures": [figure.to_json() for figure in figures if figure.goal is not None],
        "also": [figure.to_json() for figure in figures if figure.goal is None],
    }


def render(figures: Sequence[Figure], *, peer: str) -> str:
    """A table for a person."""
    others = list(dict.fromkeys(name for figure in figures for name in figure.others))
    rows = [["", "ours", peer, "ratio", "goal", *others]]
    rows += [_row(figure, others) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    notes = [f"{figure.name}: {figure.note}" for figure in figures if figure.note]
    return "\n".join([*lines, *notes])


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"  {text}", file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """Something that belongs to the figures; run_all.py knows it by the prefix."""
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def _row(figure: Figure, others: Sequence[str]) -> list[str]:
    def shown(number: float | None) -> str:
        return "–" if number is None else f"{number:.4g} {figure.unit}"

    return [
        figure.name,
        shown(figure.ours),
        shown(figure.peer),
        f"{figure.ratio:.3f}" + ("" if figure.is_met else " (missed)"),
        "–" if figure.goal is None else f"≤ {figure.goal:g}",
        *(shown(figure.others.get(name)) for name in others),
    ]
