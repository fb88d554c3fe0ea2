"""The report as one page: opens offline, shows images side by side, hides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from stoker import __version__
from stoker.conformance.check import Check
from stoker.conformance.report import MARKS, checks_of, summary, verdict
from stoker.conformance.runner import Result
from stoker.pages.shell import make_page

_GROUPS = {
    "entry": "How the platform starts the image",
    "input": "What the platform gives",
    "running": "While the script runs",
    "output": "What the container leaves behind",
    "hygiene": "What is in the image",
}
_TEMPLATE = Path(__file__).with_suffix(".html")


def render_page(images: Sequence[str], results: Sequence[Result]) -> str:
    """The whole page as HTML."""
    return make_page(
        _TEMPLATE,
        title="Does it keep SageMaker's training contract?",
        cards="".join(_card(image, results) for image in images),
        groups="".join(_group(name, images, results) for name in _GROUPS),
        version=escape(__version__),
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
