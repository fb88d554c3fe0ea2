"""The arguments of `stoker rules`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(metavar="ls|explain|run", required=True)
    listed = verbs.add_parser("ls", help="every rule in one line")
    listed.set_defaults(run="run_ls")
    explained = verbs.add_parser("explain", help="all about one rule")
    explained.add_argument("rule", metavar="NAME", help="VanishingGradient, or rules/mine.py:Mine")
    explained.set_defaults(run="run_explain")
    evaluated = verbs.add_parser("run", help="evaluate a saved run; exit code 1 if the rule fires")
    evaluated.add_argument("rule", metavar="RULE", help="VanishingGradient, or rules/mine.py:Mine")
    evaluated.add_argument("place", metavar="DIR|s3://…|JOB", help="where the tensors are")
    evaluated.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the rule",
    )
    evaluated.add_argument("--html", type=Path, metavar="FILE", help="write a page as well")
    add_root_option(evaluated)
    evaluated.set_defaults(run="run_run")
    for verb in (listed, explained, evaluated):
        verb.add_argument("--json", action="store_true", help="print JSON")
