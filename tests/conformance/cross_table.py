"""docs/faults.md: which checks notice which fault, and what was not tried yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.conformance.faults import CHECKS, Fault

Statuses = Mapping[tuple[int, int], str]
"""By fault (0: our image as it is) and check: pass, fail, n/a; empty for untried."""

_HEAD = """# What each deliberate fault breaks

Written by `python -m tests.conformance.cross`; do not edit. For every check there is a \
deliberately broken image: ours with one piece patched, or one line more in its Dockerfile \
(`tests/conformance/faults_<group>.py`). The check of the same number must fail on it, and no \
other check unless the fault declares so, with the reason. Each pair is tried without an init, \
with our CPU image underneath; a failure that is not declared counts if it comes twice in a row. \
What was tried is remembered in `tests/conformance/cross.json` until the source of the check or \
of the fault changes. The test suite tries each fault on its own check (both in Python and in \
sh) and on two of its neighbours in every run; that is not counted here.
"""


def render_table(
    faults: Mapping[int, Fault],
    statuses: Statuses,
    *,
    unsteady: Iterable[tuple[int, int]],
    older: int = 0,
) -> str:
    """The page; `older` is how many pairs were tried with another launcher than today's."""
    parts = [_HEAD, _render_summary(faults, statuses, older), _render_faults(faults, statuses)]
    parts += [_render_untried(faults, statuses), _render_unsteady(list(unsteady))]
    return "\n".join(part for part in parts if part)


def spell_numbers(numbers: Iterable[int]) -> str:
    """Numbers as people write them: 1, 3-5."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def _render_summary(faults: Mapping[int, Fault], statuses: Statuses, older: int) -> str:
    pairs = [(f, c) for f in faults for c in CHECKS]
    tried = [pair for pair in pairs if statuses[pair]]
    own = [pair for pair in tried if pair[0] == pair[1]]
    found = [pair for pair in own if statuses[pair] == "fail"]
    others = [pair for pair in tried if pair[0] != pair[1]]
    failed = [pair for pair in others if statuses[pair] == "fail"]
    declared = [pair for pair in failed if pair[1] in faults[pair[0]].also]
    clean = [number for number in CHECKS if statuses[0, number] == "pass"]
    exact = [f for f, fault in faults.items() if not fault.also]
    return f"""## In numbers

| | |
|---|---|
| pairs of a fault and a check | {len(pairs)} |
| tried | {len(tried)} ({100 * len(tried) // len(pairs)} %) |
| untried | {len(pairs) - len(tried)} |
| faults tried on their own check, and found | {len(own)}, {len(found)} |
| other pairs: tried, passed or not applicable | {len(others)}, {len(others) - len(failed)} |
| of those that failed: declared, not declared | {len(declared)}, {len(failed) - len(declared)} |
| faults that declare no other check | {len(exact)} of {len(faults)} |
| checks that our image as it is passed in the same runs | {len(clean)} of {len(CHECKS)} |
| results of an older version of the launcher (`runtime`, `contract`) | {older} |
"""


def _render_faults(faults: Mapping[int, Fault], statuses: Statuses) -> str:
    lines = [
        "## By fault",
        "",
        "| fault | what is broken | other checks it fails | tried on |",
        "|---|---|---|---|",
    ]
    for number, fault in faults.items():
        tried = [check for check in CHECKS if statuses[number, check]]
        what = fault.what.rstrip(".").replace("|", "\\|")
        cell = _render_also(fault, statuses)
        lines.append(f"| {number} | {what} | {cell} | {len(tried)} of {len(CHECKS)} |")
    return "\n".join(lines) + "\n"


def _render_also(fault: Fault, statuses: Statuses) -> str:
    cells = []
    for reason in dict.fromkeys(fault.also.values()):
        checks = [check for check, why in fault.also.items() if why == reason]
        untried = [check for check in checks if not statuses[fault.number, check]]
        passed = [c for c in checks if statuses[fault.number, c] in ("pass", "n/a")]
        cell = f"{spell_numbers(checks)}: {reason}"
        cell += f" (untried: {spell_numbers(untried)})" if untried else ""
        cell += f" (**but passed: {spell_numbers(passed)}**)" if passed else ""
        cells.append(cell)
    surprises = [c for c in CHECKS if statuses[fault.number, c] == "fail" and c not in fault.fails]
    if surprises:
        cells.append(f"**not declared: {spell_numbers(surprises)}**")
    untried = any(not statuses[fault.number, check] for check in CHECKS)
    return "; ".join(cells) or ("none of those tried" if untried else "none")


def _render_untried(faults: Mapping[int, Fault], statuses: Statuses) -> str:
    lines = ["## Untried", ""]
    for check in CHECKS:
        untried = [fault for fault in faults if not statuses[fault, check]]
        if untried:
            which = "all faults" if len(untried) == len(faults) else spell_numbers(untried)
            lines.append(f"- check {check} ({CHECKS[check].title}) on {which}")
    if len(lines) == 2:
        return ""
    return "\n".join(lines) + "\n"


def _render_unsteady(unsteady: list[tuple[int, int]]) -> str:
    if not unsteady:
        return ""
    pairs = ", ".join(f"check {check} on fault {fault}" for fault, check in unsteady)
    return f"## Once so, once otherwise\n\nTried twice with two results: {pairs}.\n"
