"""`stoker tensors`: what was saved of a run, as tables, curves and an animated view."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from stoker.cli.client.job_place import TENSORS, find_place
from stoker.machine.extras import tensors_extra


def _runner(verb: str) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        # Here, not above: NumPy is an extra, and would slow the start of every other command.
        with tensors_extra():
            from stoker.cli.tensors.verbs import VERBS
        args.place = find_place(args, TENSORS)
        VERBS[verb](args)
        return 0

    return run


run_ls, run_show, run_plot, run_view = map(_runner, ("ls", "show", "plot", "view"))
