"""The arguments of `stoker checkpoints`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(metavar="ls|show|verify|prune", required=True)
    _add_verb(verbs, "ls", "list everything in the folder, other files too")
    show = _add_verb(verbs, "show", "all that the manifest of one tells")
    show.add_argument("name", nargs="?", metavar="NAME", help="name of a checkpoint (the newest)")
    verify = _add_verb(verbs, "verify", "read every byte; exit code 1 if one is damaged")
    verify.add_argument("names", nargs="*", metavar="NAME", help="names of checkpoints (all)")
    prune = _add_verb(verbs, "prune", "remove all but the newest and the best")
    prune.add_argument(
        "--keep", type=int, default=3, metavar="N", help="how many of the newest to keep (3)"
    )
    prune.add_argument("--dry-run", action="store_true", help="only print what would be removed")


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    about: str,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("place", metavar="DIR|s3://…|JOB", help="where the checkpoints are")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_root_option(parser)
    parser.set_defaults(run=f"run_{name}")
    return parser
