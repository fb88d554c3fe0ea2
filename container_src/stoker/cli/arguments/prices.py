"""The arguments of `stoker prices`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(metavar="ls|update", required=True)
    ls = verbs.add_parser("ls", help="list the prices that are known, with their dates")
    ls.add_argument("types", nargs="*", metavar="TYPE", help="only these, such as ml.g5.xlarge")
    ls.add_argument("--region", metavar="R", help="only those of this region")
    ls.add_argument("--json", action="store_true", help="print JSON")
    ls.set_defaults(run="run_ls")
    update = verbs.add_parser("update", help="read AWS's price list, which needs no account")
    update.add_argument(
        "source",
        nargs="?",
        metavar="FILE|URL",
        help="index.csv of the offer AmazonSageMaker (downloaded from AWS when left out)",
    )
    update.add_argument("--region", metavar="R", help="the region of the price list")
    update.set_defaults(run="run_update")
