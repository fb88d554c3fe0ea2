"""The page: one file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from stoker.contract.files import now_text
from stoker.pages.shell import make_page
from stoker.report.figures.bill import HEADINGS, USEFUL, Bill, make_bill
from stoker.report.figures.charts import make_charts
from stoker.report.figures.operators import read_operators
from stoker.report.figures.run import Run
from stoker.report.insights import Insight, find_insights
from stoker.report.insights.insight import show_seconds, show_share
from stoker.report.missing import find_missing
from stoker.report.sections import (
    render_debugger,
    render_memory,
    render_metrics,
    render_operators,
    render_ranks,
    render_rules,
    render_steps,
    render_timelines,
)
from stoker.report.verdict import make_verdict, show_cost

_TEMPLATE = Path(__file__).with_name("page.html")
_LEAST_SHARE = 0.0005
"""A heading with less is not shown: it would be 0.0 %."""

_LOSSES = ("data", "transfer", "checkpoint", "logging", "other", "idle")


def render_report(run: Run, *, other: Run | None = None) -> str:
    """The whole page as HTML. Args: other: an earlier run to compare it with."""
    # A page with a comparison alone needs the code of it.
    from stoker.report.compare import render_comparison

    bill = make_bill(run)
    insights = find_insights(run, bill)
    operators = read_operators(run.traces)
    missing = [*find_missing(run), *operators.problems]
    sections = {
        "compare": render_comparison(run, bill, other) if other is not None else "",
        "steps": render_steps(run),
        "ranks": render_ranks(run),
        "timelines": render_timelines(run),
        "memory": render_memory(run, operators),
        "metrics": render_metrics(run),
        "operators": render_operators(operators),
        "rules": render_rules(run),
        "debugger": render_debugger(run),
    }
    return make_page(
        _TEMPLATE,
        title=run.title,
        facts=make_charts(run),
        lead=_render_lead(run, make_verdict(run, bill, insights)),
        contents=_render_contents(sections),
        bill=render_bill(bill),
        advice=_render_advice(insights, bill),
        missing=_render_missing(missing),
        footer=_render_footer(bill),
        **sections,
    )


def render_bill(bill: Bill) -> str:
    """The waterfall: each heading begins where the one before it ends."""
    rows, before = [], 0.0
    for heading, words in HEADINGS.items():
        seconds, share = bill.seconds[heading], bill.share(heading)
        if share < _LEAST_SHARE:
            continue
        kind = "use" if heading in USEFUL else "loss" if heading in _LOSSES else "rest"
        bar = f'<div class="bar"><i class="{kind}" style="left:{100 * before:.3f}%;'
        bar += f'width:{100 * share:.3f}%"></i></div>'
        rows.append(
            f'<tr data-heading="{heading}"><td>{escape(words)}</td><td>{bar}</td>'
            f"{_render_figures(bill, seconds)}</tr>"
        )
        before += share
    total = _render_figures(bill, bill.total_seconds).replace("td", "th")
    rows.append(f"<tr><th>all</th><th></th>{total}</tr>")
    cost = "" if bill.usd_per_hour is None else '<th class="n">cost</th>'
    head = f'<th></th><th></th><th class="n">time</th><th class="n">share</th>{cost}'
    unknown = "".join(
        f'<p class="soft">No figure for {escape(HEADINGS[heading])}: {escape(why)}.</p>'
        for heading, why in bill.unknown.items()
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table class="bill">{table}</table>{unknown}'


def _render_figures(bill: Bill, seconds: float) -> str:
    share = seconds / bill.total_seconds if bill.total_seconds else 0.0
    cells = [show_seconds(seconds), show_share(share)]
    if bill.usd_per_hour is not None:
        cells.append(show_cost(bill.usd(seconds)))
    return "".join(f'<td class="n">{cell}</td>' for cell in cells)


def _render_lead(run: Run, verdict: Sequence[str]) -> str:
    said = "".join(f'<p class="verdict">{escape(sentence)}</p>' for sentence in verdict)
    where = ", ".join(f"{count} × {kind}" for kind, count in run.instances.items())
    parts = [part for part in (run.outcome, where, run.region) if part]
    outcome = f'<p class="lead soft">{escape(" · ".join(parts))}</p>' if parts else ""
    return outcome + said


def _render_contents(sections: Mapping[str, str]) -> str:
    names = {"bill": "bill", "advice": "what to change", **{name: name for name in sections}}
    shown = [name for name in names if name in ("bill", "advice") or sections[name]]
    return " ".join(f'<a href="#{name}">{names[name]}</a>' for name in shown)


def _render_advice(insights: Sequence[Insight], bill: Bill) -> str:
    if not insights:
        return '<div class="card">Nothing was found that would be worth a change.</div>'
    return "".join(_render_insight(number, one, bill) for number, one in enumerate(insights, 1))


def _render_insight(number: int, one: Insight, bill: Bill) -> str:
    saving = ""
    if one.saving_seconds:
        dollars = show_cost(bill.usd(one.saving_seconds))
        saving = f"<p><b>Expected saving:</b> up to {show_seconds(one.saving_seconds)}"
        saving += f", {dollars}" if dollars else ""
        saving += "</p>"
    elif one.trials:
        saving = "<p><b>Expected saving:</b> has to be tried</p>"
    trials = (
        f"<p>Try it: <code>stoker advise JOB --try {escape(','.join(one.trials))}</code></p>"
        if one.trials
        else ""
    )
    evidence = "".join(f"<li>{escape(line)}</li>" for line in one.evidence)
    danger = " danger" if one.is_danger else ""
    return (
        f'<div class="card advice{danger}" data-insight="{one.key}"><h3>{number}. '
        f"{escape(one.title)}</h3><p><b>Change:</b> {escape(one.change)}</p>{saving}{trials}"
        f"{f'<ul>{evidence}</ul>' if evidence else ''}</div>"
    )


def _render_missing(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in missing)
    return (
        f'<h2 id="missing">What is missing, and why</h2><div class="card"><ul>{lines}</ul></div>'
    )


def _render_footer(bill: Bill) -> str:
    source = escape(bill.price_source)
    return (
        f"Prices: {source}. Seconds in steps are the mean over all ranks, but checkpoints, "
        "evaluation and logging of one rank, for which the others wait, count whole. Timelines: "
        f"drag to zoom, double-click for everything. Made by Stoker, {now_text()}"
    )
