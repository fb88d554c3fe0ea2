"""The report in three sentences."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.cost.bill import show_usd
from stoker.report.figures.bill import HEADINGS, USEFUL, Bill
from stoker.report.figures.run import Run
from stoker.report.insights import Insight
from stoker.report.insights.insight import show_seconds, show_share


def make_verdict(run: Run, bill: Bill, insights: Sequence[Insight]) -> list[str]:
    """What it took, what it lost most time with, and what to change first."""
    return [_where(run, bill), *_most_important(bill, insights)]


def show_cost(usd: float | None) -> str:
    """`$1.20`, `$0.0042`, `<$0.0001`; empty without a price."""
    if usd is None:
        return ""
    return "<$0.0001" if 0 < usd < 0.0001 else show_usd(usd)


def _where(run: Run, bill: Bill) -> str:
    if not bill.total_seconds:
        return "Nothing of this job was measured."
    useful = sum(bill.seconds[name] for name in USEFUL)
    cost = show_cost(bill.usd(bill.total_seconds))
    steps = max((one.steps for one in run.profile.steps_of("TRAIN")), default=0)
    took = f"The job took {show_seconds(bill.total_seconds)}{f' and cost {cost}' if cost else ''}"
    if not steps:
        return f"{took}; no training step was measured."
    return (
        f"{took}; {show_share(useful / bill.total_seconds)} of that was computing, in "
        f"{f'{steps:,} steps' if steps > 1 else 'one step'} of {show_seconds(_median(run))}."
    )


def _most_important(bill: Bill, insights: Sequence[Insight]) -> list[str]:
    if not insights:
        largest = max(bill.seconds, key=lambda name: bill.seconds[name], default="")
        if not bill.total_seconds:
            return ["So there is nothing to say about it.", "See below what is missing, and why."]
        return [
            f"Most of the time, {show_share(bill.share(largest))}, is {HEADINGS[largest]}.",
            "Nothing was found that would be worth a change.",
        ]
    first, *others = insights
    saving = first.saving_seconds
    dollars = show_cost(bill.usd(saving)) if saving else ""
    saved = f", which would save up to {show_seconds(saving)}" if saving else ""
    return [
        f"{first.title}.",
        f"Change first: {first.change}{saved}{f' ({dollars})' if saved and dollars else ''}"
        + (f"; {len(others)} more below." if others else "."),
    ]


def _median(run: Run) -> float:
    import numpy as np

    return float(np.median(np.concatenate([one.each for one in run.profile.steps_of("TRAIN")])))
