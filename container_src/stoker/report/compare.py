"""Two runs side by side: what became slower, and where."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np

from stoker.bus.step_records import SPLIT
from stoker.report.figures.bill import HEADINGS, Bill, make_bill
from stoker.report.figures.run import Run
from stoker.report.insights.insight import show_seconds
from stoker.report.verdict import show_cost

_NOISE = 0.05
"""Less than that is said to be equal."""


def render_comparison(run: Run, bill: Bill, other: Run) -> str:
    """This run against another, heading by heading and part by part of a step."""
    before = make_bill(other)
    rows = []
    for heading, words in HEADINGS.items():
        old, new = before.seconds[heading], bill.seconds[heading]
        if old or new:
            rows.append(_row(escape(words), old, new, show_seconds))
    rows.append(_row("<b>all</b>", before.total_seconds, bill.total_seconds, show_seconds))
    costs = before.usd(before.total_seconds), bill.usd(bill.total_seconds)
    if None not in costs:
        rows.append(_row("cost", costs[0] or 0.0, costs[1] or 0.0, show_cost))
    old_steps, new_steps = _parts(other), _parts(run)
    steps = [
        _row(
            escape(name.replace("_", " ")),
            old_steps.get(name, 0),
            new_steps.get(name, 0),
            show_seconds,
        )
        for name in ("step", *SPLIT, "other")
        if old_steps.get(name) or new_steps.get(name)
    ]
    head = (
        f'<th></th><th class="n">{escape(other.title)}</th><th class="n">{escape(run.title)}</th>'
    )
    head = f'<thead><tr>{head}<th class="n">difference</th></tr></thead>'
    tables = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    if steps:
        tables += f"<h3>One step</h3><table>{head}<tbody>{''.join(steps)}</tbody></table>"
    said = escape(say_difference(run, other))
    return f'<h2 id="compare">Compared</h2><div class="card"><p>{said}</p>{tables}</div>'


def say_difference(run: Run, other: Run) -> str:
    """One sentence: faster or slower, and which part of a step it is."""
    old, new = _parts(other), _parts(run)
    if not old.get("step") or not new.get("step"):
        return "One of the two has no measured steps: only their bills can be compared."
    ratio = new["step"] / old["step"]
    if abs(ratio - 1) < _NOISE:
        return f"A step takes as long as before ({show_seconds(new['step'])})."
    changes = {name: new.get(name, 0.0) - old.get(name, 0.0) for name in (*SPLIT, "other")}
    # Of a faster step, the part that shrank most.
    pick = max if ratio > 1 else min
    part = pick(changes, key=lambda name: changes[name])
    word = "slower" if ratio > 1 else "faster"
    return (
        f"A step became {word}: {show_seconds(old['step'])} → {show_seconds(new['step'])} "
        f"({100 * (ratio - 1):+.0f} %), most of it in {part.replace('_', ' ')} "
        f"({show_seconds(old.get(part, 0.0))} → {show_seconds(new.get(part, 0.0))})."
    )


def _parts(run: Run) -> dict[str, float]:
    """Mean seconds of one training step and of its parts, over all ranks, without the first."""
    series = [one.take(slice(1, None)) for one in run.profile.steps_of("TRAIN") if len(one) > 1]
    steps = sum(float(one.counts.sum()) for one in series)
    if not steps:
        return {}
    found = {"step": sum(float(one.seconds.sum()) for one in series) / steps}
    for name in SPLIT:
        found[name] = float(np.sum([one.part(name).sum() for one in series])) / steps
    found["other"] = max(0.0, found["step"] - sum(found[name] for name in SPLIT))
    return found


def _row(words: str, old: float, new: float, show: Callable[[float], str]) -> str:
    ratio = new / old - 1 if old else 0.0
    is_same = abs(ratio) < _NOISE or not old
    kind = "" if is_same else ' class="worse"' if ratio > 0 else ' class="better"'
    change = "=" if is_same and old else f"{100 * ratio:+.0f} %" if old else "new"
    return (
        f'<tr><td>{words}</td><td class="n">{show(old)}</td><td class="n">{show(new)}</td>'
        f'<td class="n"><span{kind}>{change}</span></td></tr>'
    )
