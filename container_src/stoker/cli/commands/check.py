"""`stoker check`: does an image keep SageMaker's training contract?"""

from __future__ import annotations

import argparse
import sys

from stoker.conformance.check import Check
from stoker.conformance.checks import all_checks
from stoker.conformance.page import render_page
from stoker.conformance.report import make_json, progress_line, render_table, write_junit
from stoker.conformance.runner import Result, make_tasks, run_checks
from stoker.machine.docker import ask, find_client, image_present, require_engine
from stoker.machine.failures import ImageMissing, UsageRefused
from stoker.machine.output_file import write_page


def run(args: argparse.Namespace) -> int:
    """Run the checks and report; 0 only if nothing failed."""
    checks = choose_checks(args.only, args.skip)
    client = find_client()
    require_engine(client)
    images = list(dict.fromkeys(args.images))
    for image in images:
        require_image(client, image)
    tasks = make_tasks(images, checks)
    results: list[Result] = []

    def show(result: Result) -> None:
        results.append(result)
        print(progress_line(result, done=len(results), total=len(tasks)), file=sys.stderr)

    try:
        run_checks(client, tasks, jobs=args.jobs, keep=args.keep, full=args.full, on_result=show)
    finally:
        if results:  # also what was found before Ctrl-C or the end of the engine
            _report(args, images, results)
    return 1 if any(result.status == "fail" for result in results) else 0


def choose_checks(only: set[int] | None, skip: set[int]) -> list[Check]:
    """The checks asked for.

    Raises:
        UsageRefused: a number that no check has.
    """
    known = {check.number: check for check in all_checks()}
    unknown = sorted(((only or set()) | skip) - known.keys())
    if unknown:
        raise UsageRefused(
            f"there is no check {', '.join(map(str, unknown))}",
            fix=f"the numbers are {min(known)} to {max(known)}",
        )
    return [c for n, c in known.items() if (only is None or n in only) and n not in skip]


def require_image(client: str, image: str) -> None:
    """Refuses what cannot be tried at all.

    Raises:
        ImageMissing: the engine does not hold it.
        UsageRefused: it is made for another processor.
    """
    if not image_present(client, image):
        raise ImageMissing(f"Docker has no image {image}", fix=f"docker pull {image}, or build it")
    made_for = ask([client, "image", "inspect", "--format", "{{.Architecture}}", image]).tail
    here = ask([client, "version", "--format", "{{.Server.Arch}}"]).tail
    # Under emulation by QEMU the checks of time and of signals would say nothing about the image.
    if made_for != here:
        raise UsageRefused(
            f"{image} is made for {made_for}, but this engine runs {here}",
            fix=f"build it for {here} (docker build --platform), or check it on such a machine",
        )


def _report(args: argparse.Namespace, images: list[str], results: list[Result]) -> None:
    print(make_json(images, results) if args.json else render_table(images, results))
    if args.junit:
        write_junit(args.junit, results)
    if args.html:
        write_page(args.html, render_page(images, results))
