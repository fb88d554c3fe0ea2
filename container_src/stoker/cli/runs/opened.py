"""The run store of a root, as the commands read it: also while no server runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stoker.cli.client.platform_api import open_api
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.server import find_server
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import Root, open_root
from stoker.tracking.run_filter import FilterInvalid
from stoker.tracking.run_rows import (
    RunRow,
    RunUnknown,
    filter_rows,
    find_row,
    read_rows,
    sort_rows,
)
from stoker.tracking.store import RunStore


@contextmanager
def open_runs(args: argparse.Namespace, *, make: bool = False) -> Iterator[RunStore]:
    """The store; a running server records first what its jobs have done so far.

    Args:
        args: with the root.
        make: where there is none.

    Raises:
        UsageRefused: there is none; or a run, filter or key is not valid.
    """
    root = Root(root_folder(args))
    if make:
        root = open_root(root.folder)
    elif not root.runs_database.exists():
        raise UsageRefused(
            f"{root.folder} has no runs yet", fix="train something: stoker train SCRIPT"
        )
    if find_server(root) is not None:
        with suppress(HostError):  # a server of another version, or one that just ends
            open_api(root).call("sagemaker", "ListExperiments", MaxResults=1)
    store = RunStore(root.runs_database)
    try:
        yield store
    except (RunUnknown, FilterInvalid) as error:
        raise UsageRefused(error.message, fix=error.fix) from error
    finally:
        store.close()


def choose_rows(store: RunStore, args: argparse.Namespace) -> list[RunRow]:
    """Those of --experiment and --filter in the order of --sort; or those named."""
    rows = read_rows(store)
    if names := getattr(args, "names", None):
        return [find_row(rows, name) for name in names]
    kept = filter_rows(rows, args.filter, args.experiment)
    if args.experiment and not kept and not filter_rows(rows, "", args.experiment):
        known = ", ".join(sorted({row.experiment for row in rows})) or "none"
        raise UsageRefused(f"no run is in the experiment {args.experiment}", fix=f"known: {known}")
    return sort_rows(kept, args.sort, is_rising=args.reverse)
