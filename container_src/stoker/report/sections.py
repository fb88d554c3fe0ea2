"""Sections of the page, one function each; empty where there is nothing to show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from stoker.bus.progress import show_size
from stoker.bus.step_records import SPLIT
from stoker.debugging.profiler_rules.skewed_ranks import own_seconds
from stoker.debugging.report.curves import render_chart
from stoker.report.figures.headroom import Headroom, find_batch, find_headroom
from stoker.report.figures.operators import Operator, Operators
from stoker.report.figures.outliers import find_outliers
from stoker.report.figures.run import Run
from stoker.report.insights.insight import show_seconds, show_share

_MOST_RANKS = 64
_MOST_OPERATORS = 20
_MOST_ALLOCATORS = 10


def render_steps(run: Run) -> str:
    """Steps over time, what they are made of, and the slowest with their reasons."""
    if not any(len(one) for one in run.profile.steps):
        return ""
    rows = []
    shown = [one for one in run.profile.steps if len(one) and not one.rank]
    parts = [name for name in SPLIT if any(one.part(name).any() for one in shown)]
    for one in shown:
        total = float(one.seconds.sum()) or 1e-9
        p50, p95 = np.percentile(one.each, (50, 95))
        cells = [f"{one.steps:,}", show_seconds(float(p50)), show_seconds(float(p95))]
        cells += [show_seconds(float(one.longest.max()))]
        cells += [show_share(float(one.part(name).sum()) / total) for name in parts]
        name = f"{one.name}{'' if one.mode == 'TRAIN' else ', evaluation'}"
        rows.append([_whole(name), *cells])
    head = ["", "steps", "median", "95 %", "longest", *(name.replace("_", " ") for name in parts)]
    return (
        '<h2 id="steps">Steps</h2><div class="card"><div id="steps-charts"></div>'
        f"{_table(head, rows)}{_render_outliers(run)}</div>"
    )


def render_ranks(run: Run) -> str:
    """Each rank's own work and waiting, side by side."""
    ranks = run.profile.steps_of("TRAIN")
    if len(ranks) < 2:
        return ""
    longest = max(float(np.median(one.each)) for one in ranks) or 1e-9
    rows = []
    for one in ranks[:_MOST_RANKS]:
        own, whole = float(np.median(own_seconds(one))), float(np.median(one.each))
        bar = (
            f'<div class="bar"><i class="loss" style="width:{100 * own / longest:.2f}%"></i>'
            f'<i class="use other" style="left:{100 * own / longest:.2f}%;'
            f'width:{100 * max(0.0, whole - own) / longest:.2f}%"></i></div>'
        )
        cells = [show_seconds(own), show_seconds(whole), f"{one.steps:,}"]
        rows.append([_whole(one.name), bar, *cells])
    more = len(ranks) - _MOST_RANKS
    note = f'<p class="soft">and {more} more ranks</p>' if more > 0 else ""
    head = ["rank", "", "own work of a step", "whole step", "steps"]
    return (
        f'<h2 id="ranks">Ranks</h2><div class="card">{_table(head, rows)}{note}'
        '<p class="soft">Own work is all but backward: there ranks wait for each other.</p></div>'
    )


def render_timelines(run: Run) -> str:
    if not run.profile.samples:
        return ""
    note = "The same as a trace for ui.perfetto.dev: stoker report JOB --trace trace.json.gz"
    return (
        '<h2 id="timelines">Machines</h2><div class="card"><div id="timelines-charts"></div>'
        f'<p class="soft">{note}</p></div>'
    )


def render_memory(run: Run, operators: Operators) -> str:
    """How much was left over time, the largest batch, and which operators allocated most."""
    headroom = find_headroom(run.profile)
    if not headroom and not operators.memory:
        return ""
    rows = []
    for one in headroom:
        bar = (
            '<div class="bar"><i class="use" style="'
            f'width:{min(100.0, 100 * one.share):.1f}%"></i></div>'
        )
        left = show_size(max(0.0, one.limit_bytes - one.peak_bytes))
        cells = [show_size(one.peak_bytes), show_size(one.limit_bytes), show_share(one.share)]
        rows.append([escape(one.name), bar, *cells, left])
    head = ["", "", "highest", "limit", "share", "left"]
    table = _table(head, rows) if rows else ""
    batches = "".join(_render_batch(run, one) for one in headroom)
    charts = '<div id="memory-charts"></div>'
    peaks = _render_trace_memory(operators)
    return f'<h2 id="memory">Memory</h2><div class="card">{table}{batches}{charts}{peaks}</div>'


def render_metrics(run: Run) -> str:
    """What the script has logged, on the same axis of time."""
    if not run.metrics:
        return ""
    return '<h2 id="metrics">Metrics</h2><div class="card" id="metrics-charts"></div>'


def render_operators(operators: Operators) -> str:
    """What the TensorBoard plug-in showed: operators, kernels, and where the traces are."""
    if not operators.files:
        return ""
    parts = []
    for title, found in (("Operators", operators.operators), ("Kernels", operators.kernels)):
        if found:
            parts.append(f"<h3>{title}</h3>{_render_operator_table(found)}")
    files = ", ".join(f"<code>{escape(file.name)}</code>" for file in operators.files)
    note = f'<p class="soft">Whole traces, as Perfetto (ui.perfetto.dev) opens them: {files}</p>'
    return f'<h2 id="operators">Operators</h2><div class="card">{"".join(parts)}{note}</div>'


def render_rules(run: Run) -> str:
    """All rules of the profiler, those that fired first."""
    rows = []
    ranked = sorted(run.rules.rules.items(), key=lambda each: -each[1].triggered)
    for name, rule in ranked:
        finding = run.rules.findings.get(name)
        status = "IssuesFound" if finding else "NoIssuesFound"
        said = finding.message if finding else run.rules.faults.get(name) or rule.lacking or "–"
        advice = f'<br><span class="soft">{escape(finding.hint)}</span>' if finding else ""
        extension = '<br><span class="soft">extension</span>' if rule.is_extension else ""
        parameters = ", ".join(str(rule.report()["RuleParameters"]).split("\n"))
        settings = f'<br><span class="soft fine">{escape(parameters)}</span>' if parameters else ""
        rows.append(
            [
                f"<b>{escape(name)}</b>{extension}",
                f'<span class="{"worse" if finding else "soft"}">{status}</span>',
                f"{escape(said)}{advice}{settings}",
                str(rule.triggered),
                str(rule.datapoints),
            ]
        )
    first = next((name for name, rule in ranked if rule.triggered), "")
    lead = f"{first} was triggered most often." if first else "No rule of the profiler has fired."
    quick = (
        " They ran with the settings for short jobs, as the service's wait for 1000 snapshots."
        if run.is_quick
        else ""
    )
    head = ["rule", "status", "what was seen", "times", "datapoints"]
    return (
        '<h2 id="rules">Rules of the profiler</h2><div class="card">'
        f'<p class="soft">{escape(lead)}'
        f"{quick}</p>{_table(head, rows, text=(0, 1, 2))}</div>"
    )


def render_debugger(run: Run) -> str:
    """What the debugger's rules found in the same job, and its losses."""
    statuses = [rule for rule in run.statuses if rule.rule not in ("", "ProfilerReport")]
    if not statuses and not run.curves and not run.findings:
        return ""
    marks: dict[int, list[str]] = {}
    for fired in run.findings:
        marks.setdefault(fired.step, []).append(fired.rule)
    chart = render_chart(run.curves, marks)
    messages = {fired.rule: fired.finding.message for fired in run.findings}
    rows = [
        [
            f"<b>{escape(rule.name)}</b>",
            escape(rule.status),
            str(rule.step) if rule.step >= 0 else "–",
            escape(messages.get(rule.name, "") or rule.details or "–"),
        ]
        for rule in statuses
    ]
    table = (
        _table(["rule", "status", "step", "what was seen"], rows, text=(0, 1, 3)) if rows else ""
    )
    return f'<h2 id="debugger">Debugger</h2><div class="card">{chart}{table}</div>'


def _render_outliers(run: Run) -> str:
    outliers = find_outliers(run.profile)
    if not outliers:
        return ""
    rows = [
        [
            f"{one.number:,}",
            _whole(one.series.name + ("" if one.series.mode == "TRAIN" else ", evaluation")),
            show_seconds(one.seconds),
            f"{one.seconds / one.usual_seconds:.1f} ×" if one.usual_seconds else "–",
            escape(one.reason),
        ]
        for one in outliers
    ]
    head = ["step", "rank", "took", "of the median", "what else happened"]
    return f"<h3>The slowest steps</h3>{_table(head, rows, text=(1, 4))}"


def _render_batch(run: Run, one: Headroom) -> str:
    """The largest batch that would fit, with the sum behind it."""
    if not one.largest_batch:
        return ""
    batch = max((find_batch(run.profile, node) for node in run.profile.nodes), default=0)
    fits = (
        f"a batch of about {one.largest_batch:,} would fit (now {batch})"
        if one.largest_batch > batch
        else f"no larger batch than {batch} would fit"
    )
    return (
        f"<p><b>{escape(one.name)}:</b> {fits}. "
        f'<span class="soft">An estimate: {escape(one.reasoning)}.</span></p>'
    )


def _render_trace_memory(operators: Operators) -> str:
    """Memory in the traced steps: its course, and who allocated it."""
    parts = [_render_course(device, points) for device, points in operators.memory.items()]
    by_bytes = sorted(operators.operators.items(), key=lambda each: -each[1].allocated_bytes)
    rows = [
        [escape(name[:80]), show_size(one.allocated_bytes), f"{one.allocations:,}"]
        for name, one in by_bytes[:_MOST_ALLOCATORS]
        if one.allocated_bytes
    ]
    if rows:
        head = ["operator", "allocated", "times"]
        parts.append(f"<h3>Operators by memory, in the traces</h3>{_table(head, rows)}")
    return "".join(parts)


def _render_course(device: str, points: Sequence[tuple[float, float]]) -> str:
    """One device as a small chart with an axis of its own: a trace takes a second of a job."""
    peak = max(size for _, size in points) or 1.0
    end = max(moment for moment, _ in points) or 1e-9
    line = " ".join(
        f"{'L' if place else 'M'}{960 * moment / end:.1f} {4 + 76 * (1 - size / peak):.1f}"
        for place, (moment, size) in enumerate(points)
    )
    return (
        f"<h3>{escape(device)} in the traced steps: up to {show_size(peak)} in "
        f'{show_seconds(end)}</h3><svg viewBox="0 0 960 84" preserveAspectRatio="none" '
        f'class="course" role="img" aria-label="memory of {escape(device)} in the traced steps">'
        f'<path class="curve c0" d="{line}" vector-effect="non-scaling-stroke"/></svg>'
    )


def _render_operator_table(found: dict[str, Operator]) -> str:
    whole = sum(one.own_us for one in found.values()) or 1.0
    top = sorted(found.items(), key=lambda each: -each[1].own_us)[:_MOST_OPERATORS]
    rows = [
        [
            escape(name[:80]),
            show_share(one.own_us / whole),
            show_seconds(one.own_us / 1e6),
            show_seconds(one.total_us / 1e6),
            f"{one.calls:,}",
        ]
        for name, one in top
    ]
    return _table(["", "share", "own time", "with callees", "calls"], rows)


def _whole(name: str) -> str:
    """A name that is not broken into lines."""
    return f'<span class="w">{escape(name)}</span>'


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, text: Sequence[int] = (0,)
) -> str:
    """HTML in the cells.

    Args:
        head: of the columns.
        rows: their cells.
        text: the columns that are not numbers; the last of them gets the most room.
    """

    def cell(tag: str, place: int, content: str) -> str:
        is_number = place not in text and not content.startswith("<div")
        is_longest = len(text) > 1 and place == text[-1]
        kind = ' class="n"' if is_number else ' class="text"' if is_longest else ""
        # On a phone a table with texts has no head: each number says what it is.
        label = f' data-head="{escape(head[place])}"' if is_number and tag == "td" else ""
        return f"<{tag}{kind}{label}>{content}</{tag}>"

    top = "".join(cell("th", place, escape(name)) for place, name in enumerate(head))
    body = "".join(
        f"<tr>{''.join(cell('td', place, content) for place, content in enumerate(row))}</tr>"
        for row in rows
    )
    kind = ' class="told"' if len(text) > 1 else ""
    return f"<table{kind}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
