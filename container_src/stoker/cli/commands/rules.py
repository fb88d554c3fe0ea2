"""`stoker rules`: which rules there are, what they mean, and what they say of a saved run."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

from stoker.cli.rules.catalogue import make_listing, make_page, render_listing, render_page
from stoker.machine.extras import tensors_extra
from stoker.machine.page import write_page

_EXIT_CODES = {"NoIssuesFound": 0, "IssuesFound": 1}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("rules", help="list and explain rules, judge saved tensors")
    verbs = parser.add_subparsers(metavar="ls|explain|run", required=True)
    listed = verbs.add_parser("ls", help="every rule in one line")
    listed.set_defaults(run=run_ls)
    explained = verbs.add_parser("explain", help="all about one rule")
    explained.add_argument("rule", metavar="NAME", help="VanishingGradient, or rules/mine.py:Mine")
    explained.set_defaults(run=run_explain)
    judged = verbs.add_parser("run", help="judge a saved run; exit code 1 if the rule fires")
    judged.add_argument("rule", metavar="RULE", help="VanishingGradient, or rules/mine.py:Mine")
    judged.add_argument("place", metavar="DIR|s3://…", help="where the tensors are")
    judged.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the rule",
    )
    judged.add_argument("--html", type=Path, metavar="FILE", help="a page besides")
    judged.set_defaults(run=run_run)
    for verb in (listed, explained, judged):
        verb.add_argument("--json", action="store_true", help="print JSON")


def run_ls(args: argparse.Namespace) -> int:
    """List all rules."""
    with tensors_extra():
        listing = make_listing()
    print(json.dumps(listing, indent=2) if args.json else render_listing(listing))
    return 0


def run_explain(args: argparse.Namespace) -> int:
    """Explain one rule."""
    with tensors_extra():
        page = make_page(args.rule)
    print(json.dumps(page, indent=2) if args.json else render_page(page))
    return 0


def run_run(args: argparse.Namespace) -> int:
    """Judge a saved run."""
    # Here, not above: NumPy would slow the start of every other command.
    with tensors_extra():
        from stoker.cli.rules import judging

    settings = judging.parse_settings(args.param)
    # What a user's own rule prints, or smdebug, is no part of the answer.
    with redirect_stdout(sys.stderr), judging.open_run(args.place, args.rule) as saved:
        judgement = judging.judge(saved, args.rule, settings)
        if args.html:
            page = judging.render_judgement_page(judgement, saved, place=args.place)
            write_page(args.html, page)
    if args.json:
        print(json.dumps(judging.to_json(judgement), indent=2))
    else:
        print(judging.render_judgement(judgement))
    return _EXIT_CODES.get(judgement.status.status, 2)
