"""`stoker checkpoints`: look at, verify and prune checkpoints, in a folder or on S3."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence

from stoker.checkpoints.store import Checkpoint, Store
from stoker.cli.checkpoints.bucket import open_store
from stoker.cli.checkpoints.listing import (
    make_details,
    make_listing,
    make_row,
    render_details,
    render_listing,
    resumable,
)
from stoker.cli.client.job_place import CHECKPOINTS, find_place
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_table
from stoker.machine.units import show_size


def run_ls(args: argparse.Namespace) -> int:
    """List what is in the folder."""
    args.place = find_place(args, CHECKPOINTS)
    with open_store(args.place) as store:
        listing = make_listing(store, args.place)
    print(_dump(listing) if args.json else render_listing(listing))
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Show one checkpoint."""
    args.place = find_place(args, CHECKPOINTS)
    with open_store(args.place) as store:
        checkpoint = choose_one(store, args.name, args.place)
        details = make_details(checkpoint)
    print(_dump(details) if args.json else render_details(details))
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Read every byte; tell what is damaged."""
    args.place = find_place(args, CHECKPOINTS)
    with open_store(args.place) as store:
        chosen = choose(store, args.names, args.place)
        problems = {checkpoint.name: store.verify(checkpoint) for checkpoint in chosen}
    if args.json:
        print(_dump({"place": args.place, "problems": problems}))
    else:
        rows = [(name, problem or "valid") for name, problem in problems.items()]
        print("\n".join(make_table(rows)) or f"{args.place}: no checkpoints")
    return 1 if any(problems.values()) else 0


def run_prune(args: argparse.Namespace) -> int:
    """Remove what is old, unless it is the best, the last valid one or on its way to S3."""
    if args.keep < 1:
        raise UsageRefused(f"--keep {args.keep} would leave nothing", fix="--keep 1, or more")
    args.place = find_place(args, CHECKPOINTS)
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
    print(f"left: {', '.join(left) or 'none'}; {show_size(size_bytes)} {verb}")
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
    """One checkpoint by name, or the newest that looks valid.

    Raises:
        UsageRefused: there is none.
    """
    if name:
        return choose(store, [name], place)[0]
    newest = resumable(store.read_all())
    if newest is None:
        raise UsageRefused(
            f"there is no valid checkpoint in {place}", fix="see `stoker checkpoints ls`"
        )
    return newest


def _dump(value: object) -> str:
    return json.dumps(value, indent=2)
