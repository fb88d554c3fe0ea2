"""`stoker report`: where the time and the money of a job went, as a page."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack

from stoker.machine.extras import tensors_extra
from stoker.machine.output_file import write_page, write_trace


def run(args: argparse.Namespace) -> int:
    """Write the page, and print the verdict."""
    # Here, not above: NumPy would slow the start of every other command.
    with tensors_extra():
        from stoker.cli.report.source import open_run
        from stoker.report.page import render_report
        from stoker.report.summary import make_summary, render_summary
        from stoker.report.trace import render_trace

    with ExitStack() as opened:
        found = opened.enter_context(open_run(args, args.place))
        other = opened.enter_context(open_run(args, args.compare)) if args.compare else None
        page = render_report(found, other=other)
        summary = make_summary(found, other=other)
        trace = render_trace(found.profile) if args.trace else ""
    print(json.dumps(summary, indent=2) if args.json else render_summary(summary))
    write_page(args.html, page)
    if args.trace:
        write_trace(args.trace, trace)
    return 0
