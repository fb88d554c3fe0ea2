"""The page itself: one file, readable offline and without JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stoker.bus.rule_status import RuleStatus, now_text
from stoker.contract.record import Record
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.report.curves import Curve, render_chart

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fbfaf7; --line: #e4e0d8;
        --soft: #6b7280; --card: #fff; --good: #1f7a4d; --bad: #b3261e; --odd: #8a6d1a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e1; --paper: #16181d; --line: #30343d; --soft: #9aa1ad; --card: #1e2128;
          --good: #5fc794; --bad: #ff8a80; --odd: #e0c060; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.2rem 1.25rem 3rem; max-width: 66rem; background: var(--paper);
       color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; }
p.lead { margin: 0 0 .4rem; overflow-wrap: anywhere; } .soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        padding: .9rem 1rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.fired { fill: var(--bad); font-weight: 600; paint-order: stroke; stroke: var(--card);
                 stroke-width: 5px; } b.fired { color: var(--bad); }
.grid { stroke: var(--line); } .mark { stroke: var(--bad); stroke-dasharray: 4 3; fill: none; }
.wild { stroke: var(--bad); stroke-width: 1.8; fill: none; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.c0 { --hue: #2f74c0; } .c1 { --hue: #c2600c; } .c2 { --hue: #3c9a5f; } .c3 { --hue: #8e5bb5; }
.c4 { --hue: #b8486b; } .c5 { --hue: #2a9d9d; } .c6 { --hue: #8a7a2a; } .c7 { --hue: #777; }
.curve { stroke: var(--hue); } .dot { fill: var(--hue); }
i.key { display: inline-block; width: 1.1em; height: .25em; border-radius: 2px; margin: 0 .4em;
        vertical-align: middle; background: var(--hue); }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; padding: .5rem .7rem .5rem 0; border-top: 1px solid var(--line);
         vertical-align: top; }
td:first-child { min-width: 12rem; } td:first-child, td:last-child { overflow-wrap: anywhere; }
thead th { border-top: 0; font-size: .85rem; color: var(--soft); font-weight: 500; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.s { white-space: nowrap; font-weight: 600; }
.IssuesFound, .Error { color: var(--bad); } .NoIssuesFound { color: var(--good); }
.InProgress, .Stopped, .Stopping { color: var(--odd); }
code { font: .88em ui-monospace, monospace; }
footer { margin-top: 2.2rem; color: var(--soft); font-size: .85rem; }
"""


class Report(Record):
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
    body = (
        f"<h1>{escape(report.title)}</h1>{_lead(report)}"
        f"{_losses(report.curves, render_chart(report.curves, marks))}"
        f"{_rules(report)}"
        f"<footer>Steps are global: they count training and evaluation. Look closer with "
        f"<code>stoker tensors plot</code> and <code>stoker rules explain NAME</code>. "
        f"Made by Stoker, {now_text()}</footer>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(report.title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
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
    # What was found first, then what could not be judged.
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
