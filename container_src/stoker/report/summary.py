"""The same for terminals and programs: the verdict, the bill and the advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.report.compare import say_difference
from stoker.report.figures.bill import HEADINGS, make_bill
from stoker.report.figures.run import Run
from stoker.report.insights import find_insights
from stoker.report.insights.insight import show_seconds, show_share
from stoker.report.verdict import make_verdict, show_cost


def make_summary(run: Run, *, other: Run | None = None) -> dict[str, Any]:
    """Plain values. Args: other: an earlier run."""
    bill = make_bill(run)
    insights = find_insights(run, bill)
    summary: dict[str, Any] = {
        "title": run.title,
        "verdict": make_verdict(run, bill, insights),
        "seconds": {name: round(seconds, 3) for name, seconds in bill.seconds.items()},
        "total_seconds": round(bill.total_seconds, 3),
        "usd": bill.usd(bill.total_seconds),
        "advice": [
            {
                "key": one.key,
                "title": one.title,
                "change": one.change,
                "share": round(one.share, 4),
                "lost_seconds": round(one.lost_seconds, 3),
                "saving_seconds": one.saving_seconds,
                "evidence": list(one.evidence),
                "try": list(one.trials),
            }
            for one in insights
        ],
        "rules": {name: finding.message for name, finding in run.rules.findings.items()},
    }
    if other is not None:
        summary["compared"] = say_difference(run, other)
    return summary


def render_summary(summary: Mapping[str, Any]) -> str:
    """For people."""
    total = summary["total_seconds"] or 1.0
    rate = summary["usd"] / total if summary["usd"] is not None else None
    lines = [*summary["verdict"], ""]
    for heading, words in HEADINGS.items():
        seconds = summary["seconds"][heading]
        if seconds:
            usd = show_cost(None if rate is None else rate * seconds)
            share = show_share(seconds / total)
            lines.append(f"  {words:<40} {show_seconds(seconds):>12} {share:>7} {usd:>8}")
    lines += ["", *(f"{n}. {one['title']}" for n, one in enumerate(summary["advice"], 1))]
    if "compared" in summary:
        lines += ["", summary["compared"]]
    return "\n".join(lines).rstrip()
