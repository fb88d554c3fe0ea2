"""What the checks found, for people (a table), for programs (JSON) and for CI (JUnit)."""

from __future__ import annotations

import json
import textwrap
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stoker.conformance.check import Check
from stoker.conformance.runner import Result

MARKS = {"pass": "✓", "fail": "✗", "n/a": "–"}
_TITLE_WIDTH = 52


def progress_line(result: Result, *, done: int, total: int) -> str:
    """One line as a result comes in."""
    variant = f" ({result.variant})" if result.variant else ""
    mark, number = MARKS[result.status], result.check.number
    line = f"[{done:>3}/{total}] {mark} {number:>2} {result.check.title}{variant}"
    return f"{line}  {result.seconds:.1f} s  {result.image}"


def render_table(images: Sequence[str], results: Sequence[Result]) -> str:
    """Every check with its verdicts, the reasons of failures below."""
    width = max(12, *(len(image) for image in images))
    head = f"{'':>2}  {'check':<{_TITLE_WIDTH}}" + "".join(f"  {i:<{width}}" for i in images)
    lines = [head, "-" * len(head)]
    for check in checks_of(results):
        cells = "".join(f"  {verdict(results, image, check):<{width}}" for image in images)
        title = textwrap.shorten(check.title, _TITLE_WIDTH, placeholder="…")
        lines.append(f"{check.number:>2}  {title:<{_TITLE_WIDTH}}{cells}".rstrip())
    lines += ["", *(summary(results, image) for image in images)]
    return "\n".join([*lines, *_reasons(results)])


def summary(results: Sequence[Result], image: str) -> str:
    """How many checks passed, failed or did not apply; a check fails if one variant does."""
    counts = Counter(verdict(results, image, check).split()[0] for check in checks_of(results))
    return (
        f"{image}: {counts['pass']} passed, {counts['fail']} failed, "
        f"{counts['n/a']} not applicable"
    )


def verdict(results: Sequence[Result], image: str, check: Check) -> str:
    """One word for both variants; names the one that failed if the other did not."""
    found = [r for r in results if r.image == image and r.check.number == check.number]
    failed = [r for r in found if r.status == "fail"]
    if failed:
        # Both ways failed: then the way does not matter.
        only = len(found) > 1 and len(failed) == 1
        return f"fail {failed[0].variant}" if only else "fail"
    return found[0].status if found else "not run"


def checks_of(results: Sequence[Result]) -> list[Check]:
    """The checks that were run, by number."""
    found = {result.check.number: result.check for result in results}
    return [found[number] for number in sorted(found)]


def make_json(images: Sequence[str], results: Sequence[Result]) -> str:
    """Everything, for programs."""
    rows = [
        {
            "image": r.image,
            "number": r.check.number,
            "title": r.check.title,
            "group": r.check.group,
            "variant": r.variant,
            "status": r.status,
            "seen": r.seen,
            "contract": r.check.contract,
            "source": r.check.source,
            "how": r.check.how,
            "fix": r.check.fix,
            "seconds": round(r.seconds, 2),
        }
        for r in sorted(results, key=lambda r: (r.image, r.check.number, r.init))
    ]
    return json.dumps({"images": list(images), "results": rows}, indent=1, ensure_ascii=False)


def write_junit(file: Path, results: Sequence[Result]) -> None:
    """One test case per check and image, as CI servers read them."""
    suite = ET.Element("testsuite", name="stoker check", tests=str(len(results)))
    for r in results:
        name = f"{r.check.number} {r.check.title} {r.variant}".strip()
        case = ET.SubElement(
            suite, "testcase", classname=r.image, name=name, time=f"{r.seconds:.2f}"
        )
        if r.status == "fail":
            ET.SubElement(case, "failure", message=_printable(r.seen)).text = r.check.fix
        elif r.status == "n/a":
            ET.SubElement(case, "skipped", message=_printable(r.seen))
    ET.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)


def _reasons(results: Sequence[Result]) -> list[str]:
    lines: list[str] = []
    for r in sorted(results, key=lambda r: (r.image, r.check.number, r.init)):
        if r.status != "pass":
            variant = f", {r.variant}" if r.variant else ""
            lines += [
                "",
                f"{MARKS[r.status]} {r.check.number} {r.check.title} ({r.image}{variant})",
            ]
            lines += textwrap.indent(f"seen: {r.seen}", "    ").splitlines()
        if r.status == "fail":
            lines += [f"    contract ({r.check.source}): {r.check.contract}"]
            lines += [f"    fix: {r.check.fix}"]
    return lines


def _printable(text: str) -> str:
    """XML 1.0 has no place for control characters, and a container may print any."""
    return "".join(c if c >= " " or c in "\n\t" else "?" for c in text)
