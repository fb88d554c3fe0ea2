"""The report as one page: opens offline, shows images side by side, hides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stoker import __version__
from stoker.conformance.check import Check
from stoker.conformance.report import MARKS, checks_of, summary, verdict
from stoker.conformance.runner import Result

_GROUPS = {
    "entry": "How the platform starts the image",
    "input": "What the platform gives",
    "running": "While the script runs",
    "output": "What the container leaves behind",
    "hygiene": "What is in the image",
}
_STYLE = """
:root { --ink: #1c2330; --paper: #fbfaf7; --line: #dcd8cf; --soft: #6b7280; --card: #fff;
        --pass: #1f7a4d; --fail: #b3261e; --na: #8a8577; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e1; --paper: #16181d; --line: #343842; --soft: #9aa1ad; --card: #1e2128;
          --pass: #5fc794; --fail: #ff8a80; --na: #a39e90; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 68rem; background: var(--paper);
       color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
p.lead { color: var(--soft); margin: 0 0 1.5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        padding: 1rem 1.2rem; }
.card h3 { margin: 0 0 .4rem; font-size: 1rem; overflow-wrap: anywhere; }
.bar { display: flex; height: 10px; border-radius: 5px; overflow: hidden; margin: .6rem 0 .3rem; }
.bar span { display: block; } .bar .pass { background: var(--pass); }
.bar .fail { background: var(--fail); } .bar .na { background: var(--na); opacity: .5; }
table { width: 100%; border-collapse: collapse; background: var(--card);
        border: 1px solid var(--line); border-radius: 10px; }
th, td { text-align: left; padding: .45rem .7rem; border-top: 1px solid var(--line);
         vertical-align: top; }
thead th { border-top: 0; font-size: .85rem; color: var(--soft); overflow-wrap: anywhere; }
td.n { width: 2.5rem; color: var(--soft); font-variant-numeric: tabular-nums; }
td.v { width: 11rem; white-space: nowrap; font-weight: 600; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .na { color: var(--na); }
summary { cursor: pointer; } dl { margin: .5rem 0 .3rem; display: grid; gap: .2rem .9rem;
grid-template-columns: max-content 1fr; font-size: .9rem; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
"""


def render_page(images: Sequence[str], results: Sequence[Result]) -> str:
    """The whole page as HTML."""
    groups = "".join(_group(name, images, results) for name in _GROUPS)
    cards = "".join(_card(image, results) for image in images)
    title = "Does it keep SageMaker's training contract?"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        '<p class="lead">Real containers on plain Docker, without AWS. Open a row to see what '
        "the contract says, how it was tried and what was seen.</p>"
        f'<div class="cards">{cards}</div>{groups}'
        f"<footer>stoker check, version {escape(__version__)}. SageMaker itself was not asked: "
        "this is the contract as published and as seen.</footer></body></html>\n"
    )


def _card(image: str, results: Sequence[Result]) -> str:
    checks = checks_of(results)
    verdicts = [verdict(results, image, check).split()[0] for check in checks]
    bar = "".join(
        f'<span class="{name.replace("/", "")}" style="flex:{verdicts.count(name)}"></span>'
        for name in ("pass", "fail", "n/a")
        if name in verdicts
    )
    counted = summary(results, image).removeprefix(f"{image}: ")
    return (
        f'<div class="card"><h3>{escape(image)}</h3><div class="bar">{bar}</div>'
        f"{escape(counted)}</div>"
    )


def _group(name: str, images: Sequence[str], results: Sequence[Result]) -> str:
    checks = [check for check in checks_of(results) if check.group == name]
    if not checks:
        return ""
    heads = "".join(f"<th>{escape(image)}</th>" for image in images)
    rows = "".join(_row(check, images, results) for check in checks)
    return (
        f"<h2>{_GROUPS[name]}</h2><table><thead><tr><th></th><th>check</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _row(check: Check, images: Sequence[str], results: Sequence[Result]) -> str:
    cells = "".join(_cell(verdict(results, image, check)) for image in images)
    seen = "".join(
        f"<dt>{escape(r.image)}<br>{escape(r.variant)}</dt>"
        f'<dd class="{_css(r.status)}">{escape(r.seen)}</dd>'
        for r in sorted(results, key=lambda r: (images.index(r.image), r.init))
        if r.check.number == check.number
    )
    details = (
        f"<dl><dt>contract</dt><dd>{escape(check.contract)} <em>({escape(check.source)})</em></dd>"
        f"<dt>tried</dt><dd>{escape(check.how)}</dd>{seen}"
        f"<dt>fix</dt><dd>{escape(check.fix)}</dd></dl>"
    )
    failed = any(r.status == "fail" for r in results if r.check.number == check.number)
    state = " open" if failed else ""
    return (
        f'<tr><td class="n">{check.number}</td><td><details{state}><summary>{escape(check.title)}'
        f"</summary>{details}</details></td>{cells}</tr>"
    )


def _cell(text: str) -> str:
    status = text.split()[0]
    mark = MARKS.get(status, "")
    return f'<td class="v {_css(status)}">{mark} {escape(text)}</td>'


def _css(status: str) -> str:
    return status.replace("/", "")
