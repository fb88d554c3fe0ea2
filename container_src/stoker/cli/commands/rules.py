"""`stoker rules`: which rules there are, what they mean, and what they say of a saved run."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout

from stoker.cli.rules.catalogue import make_listing, make_page, render_listing, render_page
from stoker.machine.extras import tensors_extra
from stoker.machine.output_file import write_page

_EXIT_CODES = {"NoIssuesFound": 0, "IssuesFound": 1}


def run_ls(args: argparse.Namespace) -> int:
    """List all rules."""
    listing = make_listing()
    print(json.dumps(listing, indent=2) if args.json else render_listing(listing))
    return 0


def run_explain(args: argparse.Namespace) -> int:
    """Explain one rule."""
    page = make_page(args.rule)
    print(json.dumps(page, indent=2) if args.json else render_page(page))
    return 0


def run_run(args: argparse.Namespace) -> int:
    """Evaluate a saved run."""
    # Here, not above: NumPy and the platform's client would slow the start of `ls` and `explain`.
    from stoker.cli.client.job_place import TENSORS, find_place

    with tensors_extra():
        from stoker.cli.rules import evaluation

    settings = evaluation.parse_settings(args.param)
    args.place = find_place(args, TENSORS)
    # What a user's own rule prints, or smdebug, is not part of the answer.
    with redirect_stdout(sys.stderr), evaluation.open_run(args.place, args.rule) as saved:
        result = evaluation.evaluate(saved, args.rule, settings)
        if args.html:
            page = evaluation.render_page(result, saved, place=args.place)
            write_page(args.html, page)
    if args.json:
        print(json.dumps(evaluation.to_json(result), indent=2))
    else:
        print(evaluation.render(result))
    return _EXIT_CODES.get(result.status.status, 2)
