"""`stoker runs`: look at, compare, export and import what was tracked."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.target import find_output
from stoker.cli.runs.comparison import compare, render_comparison
from stoker.cli.runs.export import (
    list_points,
    make_run_table,
    render_csv,
    send_to_mlflow,
    write_parquet,
)
from stoker.cli.runs.importing import import_place
from stoker.cli.runs.lineage_tree import make_tree, render_tree
from stoker.cli.runs.opened import choose_rows, open_runs
from stoker.cli.runs.showing import make_json, render_rows, render_run
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import Root
from stoker.platform.tracking.tracked import make_arn
from stoker.tracking.records import Run
from stoker.tracking.run_page import render_page
from stoker.tracking.run_rows import find_row, read_rows

_SHOWN_RUNS = 50


def run_ls(args: argparse.Namespace) -> int:
    """A table."""
    with open_runs(args) as store:
        rows = choose_rows(store, args)
    if args.json:
        return _print_json([make_json(row) for row in rows])
    shown = rows if args.all else rows[:_SHOWN_RUNS]
    return _print(render_rows(shown, len(rows)))


def run_show(args: argparse.Namespace) -> int:
    """One run in full."""
    with open_runs(args) as store:
        rows = read_rows(store)
        row = find_row(rows, args.name)
    if args.json:
        return _print_json(make_json(row))
    return _print([*render_run(row), "lineage", *_indent(render_tree(make_tree(row, rows)))])


def run_diff(args: argparse.Namespace) -> int:
    """How runs differ."""
    if len(args.names) < 2:
        raise UsageRefused("one run has no differences", fix="name two or more: runs diff A B")
    with open_runs(args) as store:
        rows = choose_rows(store, args)
    found = compare(rows, Root(root_folder(args)).s3_dir)
    return _print_json(found) if args.json else _print(render_comparison(rows, found))


def run_lineage(args: argparse.Namespace) -> int:
    """A tree."""
    with open_runs(args) as store:
        rows = read_rows(store)
        tree = make_tree(find_row(rows, args.name), rows)
    return _print_json(tree.to_json()) if args.json else _print(render_tree(tree))


def run_export(args: argparse.Namespace) -> int:
    """Tables, or an MLflow server."""
    with open_runs(args) as store:
        rows = choose_rows(store, args)
        if args.mlflow:
            sent = []
            for name, run_id, is_new in send_to_mlflow(store, rows, args.mlflow):
                sent.append({"name": name, "run_id": run_id, "is_new": is_new})
                if not args.json:
                    print(f"{name}: {run_id}{'' if is_new else ', which was there'}")
            return _print_json(sent) if args.json else 0
        records = list(list_points(store, rows)) if args.points else make_run_table(rows)
    if args.parquet:
        write_parquet(records, args.parquet)
    elif args.csv == "-":
        sys.stdout.write(render_csv(records))
        return 0
    else:
        with open(args.csv, "w", encoding="utf-8", newline="") as file:
            file.write(render_csv(records))
    place = str(args.parquet or args.csv)
    if args.json:
        return _print_json({"file": place, "rows": len(records), "runs": len(rows)})
    return _print([f"{place}: {len(records)} rows of {len(rows)} runs"])


def run_tag(args: argparse.Namespace) -> int:
    """Set and remove tags."""
    new = {}
    for text in args.tags:
        key, is_pair, value = text.partition("=")
        if not is_pair or not key:
            raise UsageRefused(f"{text} is not KEY=VALUE", fix="stoker runs tag RUN team=vision")
        new[key] = value
    with open_runs(args) as store:
        name = find_row(read_rows(store), args.name).run.name
        gone = set(args.remove)

        def change(run: Run) -> Run:
            kept = {key: value for key, value in run.tags.items() if key not in gone}
            return replace(run, tags={**kept, **new})

        tags = store.change(Run, name, change).tags if new or gone else store.read(Run, name).tags
    if args.json:
        return _print_json({"run": name, "tags": dict(tags)})
    return _print([f"{key}={value}" for key, value in tags.items()] or ["no tags"])


def run_rm(args: argparse.Namespace) -> int:
    """Remove runs."""
    with open_runs(args) as store:
        rows = choose_rows(store, args)
        names = list(dict.fromkeys(row.run.name for row in rows))
        for name in names:
            with store.transaction():
                store.remove(Run, name)
                store.unlink_all(make_arn(Run, name))
    if args.json:
        return _print_json({"removed": names})
    return _print(f"removed {name}" for name in names)


def run_import(args: argparse.Namespace) -> int:
    """Runs of elsewhere; 1 if one of them is damaged."""
    with open_runs(args, make=True) as store:
        found = [
            each
            for place in args.places
            for each in import_place(store, find_output(args, place), args.experiment)
        ]
    if args.json:
        _print_json([{"place": e.place, "run": e.run, "problem": e.problem} for e in found])
    else:
        _print(f"{each.place}: {each.problem or each.run}" for each in found)
    return 1 if any(each.problem and not each.is_known for each in found) else 0


def run_page(args: argparse.Namespace) -> int:
    """All runs as one page."""
    with open_runs(args) as store:
        rows = choose_rows(store, args)
        text = render_page(store, rows)
    args.html.write_text(text, "utf-8")
    if args.json:
        return _print_json({"file": str(args.html), "runs": len(rows)})
    return _print([f"{args.html}: {len(rows)} runs, {len(text) / 1e6:.1f} MB"])


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _print(lines: Iterable[str]) -> int:
    for line in lines:
        print(line)
    return 0


def _print_json(value: Any) -> int:  # noqa: ANN401 - JSON
    print(json.dumps(value, indent=1, default=str))
    return 0
