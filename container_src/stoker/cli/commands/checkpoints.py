"""`stoker checkpoints`: look at, verify and prune checkpoints, in a folder or on S3."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Callable, Sequence

from stoker.checkpoints.store import Checkpoint, Store
from stoker.cli.checkpoints.listing import (
    make_details,
    make_listing,
    make_row,
    render_details,
    render_listing,
    resumable,
)
from stoker.cli.checkpoints.sagemaker import open_store
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_table


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("checkpoints", help="look at, verify and prune checkpoints")
    verbs = parser.add_subparsers(metavar="ls|show|verify|prune", required=True)
    _add_verb(verbs, "ls", "what lies there, other people's files too", run_ls)
    show = _add_verb(verbs, "show", "all that the manifest of one tells", run_show)
    show.add_argument("name", nargs="?", metavar="NAME", help="of a checkpoint (the newest)")
    verify = _add_verb(
        verbs, "verify", "read every byte; exit code 1 if one is damaged", run_verify
    )
    verify.add_argument("names", nargs="*", metavar="NAME", help="these alone")
    prune = _add_verb(verbs, "prune", "remove all but the newest and the best", run_prune)
    prune.add_argument("--keep", type=int, default=3, metavar="N", help="of the newest (3)")
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")


def run_ls(args: argparse.Namespace) -> int:
    """List what lies there."""
    with open_store(args.place) as store:
        listing = make_listing(store, args.place)
    print(_dump(listing) if args.json else render_listing(listing))
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Show one checkpoint."""
    with open_store(args.place) as store:
        checkpoint = choose_one(store, args.name, args.place)
        details = make_details(checkpoint)
    print(_dump(details) if args.json else render_details(details))
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Read every byte; tell what is damaged."""
    with open_store(args.place) as store:
        chosen = choose(store, args.names, args.place)
        problems = {checkpoint.name: store.verify(checkpoint) for checkpoint in chosen}
    if args.json:
        print(_dump({"place": args.place, "problems": problems}))
    else:
        rows = [(name, problem or "sound") for name, problem in problems.items()]
        print("\n".join(make_table(rows)) or f"{args.place}: no checkpoints")
    return 1 if any(problems.values()) else 0


def run_prune(args: argparse.Namespace) -> int:
    """Remove what is old, unless it is the best, the last sound one or on its way to S3."""
    if args.keep < 1:
        raise UsageRefused(f"--keep {args.keep} would leave nothing", fix="--keep 1, or more")
    with open_store(args.place) as store:
        removed = store.prune(keep=args.keep, dry_run=args.dry_run)
        size_bytes = sum(c.manifest.size_bytes for c in removed if c.manifest)
        rows = [make_row(checkpoint) for checkpoint in removed]
        left = [c.name for c in store.read_all() if c.name not in {r["name"] for r in rows}]
    if args.json:
        answer = {"removed": [row["name"] for row in rows], "left": left}
        print(_dump({"place": args.place, "dry_run": args.dry_run, **answer}))
        return 0
    verb = "would remove" if args.dry_run else "removed"
    print("\n".join([f"{verb} {row['name']}" for row in rows] or ["nothing to remove"]))
    print(f"left: {', '.join(left) or 'none'}; {size_bytes / 1e9:.2f} GB {verb}")
    return 0


def choose(store: Store, names: Sequence[str], place: str) -> list[Checkpoint]:
    """The checkpoints of these names, or all.

    Raises:
        UsageRefused: one is not there; names the nearest.
    """
    found = {checkpoint.name: checkpoint for checkpoint in store.read_all()}
    for name in names:
        if name not in found:
            near = difflib.get_close_matches(name, found, n=1, cutoff=0.3)
            raise UsageRefused(
                f"there is no checkpoint {name} in {place}",
                fix=f"did you mean {near[0]}?" if near else "see `stoker checkpoints ls`",
            )
    return [found[name] for name in names] if names else list(found.values())


def choose_one(store: Store, name: str | None, place: str) -> Checkpoint:
    """One checkpoint by name, or the newest that looks sound.

    Raises:
        UsageRefused: there is none.
    """
    if name:
        return choose(store, [name], place)[0]
    newest = resumable(store.read_all())
    if newest is None:
        raise UsageRefused(
            f"no sound checkpoint lies in {place}", fix="see `stoker checkpoints ls`"
        )
    return newest


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("place", metavar="DIR|s3://…", help="where the checkpoints are")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _dump(value: object) -> str:
    return json.dumps(value, indent=2)
