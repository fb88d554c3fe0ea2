"""The page itself: one file, readable offline and without JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from stoker.bus.rule_status import RuleStatus
from stoker.contract.files import now_text
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.report.curves import Curve, render_chart
from stoker.pages.shell import make_page

_TEMPLATE = Path(__file__).with_suffix(".html")


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What the page shows."""

    title: str
    outcome: str = ""
    """How the job ended; empty where there was none."""
    rules: tuple[RuleStatus, ...]
    findings: tuple[Fired, ...]
    curves: tuple[Curve, ...]
    saved_steps: int


def render_report(report: Report) -> str:
    """The whole page as HTML."""
    marks: dict[int, list[str]] = {}
    for fired in report.findings:
        marks.setdefault(fired.step, []).append(fired.rule)
    return make_page(
        _TEMPLATE,
        title=report.title,
        lead=_lead(report),
        losses=_losses(report.curves, render_chart(report.curves, marks)),
        rules=_rules(report),
        now=now_text(),
    )


def _lead(report: Report) -> str:
    count = sum(rule.status == "IssuesFound" for rule in report.rules)
    fired = f"{count} of {len(report.rules)} rules found something"
    steps = f"{report.saved_steps} saved step{'s' * (report.saved_steps != 1)}"
    outcome = f'<p class="lead"><b>{escape(report.outcome)}</b></p>' if report.outcome else ""
    return f'{outcome}<p class="lead soft">{fired} in {steps}.</p>'


def _losses(curves: Sequence[Curve], chart: str) -> str:
    if not chart:
        return '<p class="soft">No losses were saved, so there is no curve to show.</p>'
    keys = " ".join(
        f'<span><i class="key c{number}"></i>{escape(curve.name)} ({curve.mode.lower()})</span>'
        for number, curve in enumerate(curves)
    )
    if 'class="wild"' in chart:
        keys += ' <span><b class="fired">✕</b> infinite or not a number</span>'
    return f'<h2>Losses</h2><div class="card">{chart}<p class="lead soft">{keys}</p></div>'


def _rules(report: Report) -> str:
    found = {fired.rule: fired for fired in report.findings}
    # What was found first, then what could not be evaluated.
    order = ("IssuesFound", "Error", "Stopped", "Stopping", "InProgress", "NoIssuesFound")
    ranked = sorted(report.rules, key=lambda rule: (order.index(rule.status), rule.step))
    rows = "".join(_row(rule, found.get(rule.name)) for rule in ranked)
    head = "<th>rule</th><th>status</th><th>step</th><th>what was seen</th>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h2>Rules</h2><div class="card">{table}</div>'


def _row(rule: RuleStatus, fired: Fired | None) -> str:
    kind = "" if rule.rule == rule.name else f'<br><span class="soft">{escape(rule.rule)}</span>'
    step = str(rule.step) if rule.step >= 0 else "–"
    return (
        f"<tr><td><b>{escape(rule.name)}</b>{kind}</td>"
        f'<td class="s {rule.status}">{rule.status}</td><td class="n">{step}</td>'
        f"<td>{_seen(rule, fired)}</td></tr>"
    )


def _seen(rule: RuleStatus, fired: Fired | None) -> str:
    if fired is None:
        said = rule.details or f"{rule.evaluated_steps} steps evaluated"
        return f'<span class="soft">{escape(said)}</span>'
    hint = fired.finding.hint
    advice = f'<br><span class="soft">{escape(hint)}</span>' if hint else ""
    return f"{escape(fired.finding.message)}{advice}"
