"""What each verb of `stoker tensors` does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from stoker.cli.tensors import plot, showing
from stoker.cli.tensors.bucket import open_tensors
from stoker.cli.tensors.listing import (
    choose_names,
    make_listing,
    render_listing,
    require_mode,
    require_tensors,
)
from stoker.cli.tensors.scene import make_scene
from stoker.cli.tensors.series import read_series
from stoker.cli.tensors.view import render_view_page
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors import SavedTensors
from stoker.machine.failures import UsageRefused
from stoker.machine.output_file import write_page


def ls(args: argparse.Namespace) -> None:
    """List what was saved."""
    with open_tensors(args.place) as saved:
        listing = make_listing(
            saved, args.place, regex=args.name, mode=_mode(args), is_whole=args.json
        )
    print(_dump(listing) if args.json else render_listing(listing))


def show(args: argparse.Namespace) -> None:
    """Statistics over the steps, or the values at one."""
    if args.step is not None:
        show_step(args)
        return
    with _open_steps(args) as saved:
        names = choose_names(saved.names(), args.name)
        wanted = names if args.json else names[: showing.MOST_TENSORS]
        series = read_series(saved, wanted, mode=_mode(args), most_steps=None)
    if args.json:
        tensors = [showing.series_to_json(one) for one in series]
        print(_dump({"place": args.place, "tensors": tensors}))
        return
    print(showing.render_series(series))
    _say_left_out(len(names) - len(wanted))


def show_step(args: argparse.Namespace) -> None:
    """The values at one step."""
    with _open_steps(args) as saved:
        names = choose_names(saved.names(), args.name)
        tensors = showing.read_values(saved, names, args.step, _mode(args))
        if not tensors:
            raise UsageRefused(
                f"none of the {len(names):,} tensors that match was saved at step {args.step}",
                fix="`stoker tensors ls` says from which step to which each was saved",
            )
        if args.json:
            values = [showing.value_to_json(tensor) for tensor in tensors]
            print(_dump({"place": args.place, "step": args.step, "tensors": values}, indent=None))
            return
        shown = tensors[: showing.MOST_TENSORS]
        print("\n\n".join(map(showing.render_value, shown)))
    _say_left_out(len(tensors) - len(shown))


def plot_curves(args: argparse.Namespace) -> None:
    """Curves, in the terminal or on a page."""
    most = plot.MOST_CHARTS if args.html else plot.MOST_LINES
    with _open_steps(args) as saved:
        names = choose_names(saved.names(), args.name)
        shown = names[:most]
        series = read_series(saved, shown, mode=_mode(args), most_steps=plot.MOST_STEPS)
    left_out = len(names) - len(shown)
    if args.html:
        page = plot.render_plot_page(
            series, place=args.place, left_out=left_out, has_ended=saved.has_ended
        )
        write_page(args.html, page)
    else:
        print(plot.render_plot(series))
        _say_left_out(left_out)


def view(args: argparse.Namespace) -> None:
    """The animated view."""
    with _open_steps(args) as saved:
        scene = make_scene(
            saved,
            regex=args.name,
            label_regex=args.label,
            prediction_regex=args.prediction,
            sample=args.sample,
            most_steps=args.steps,
            mode=_mode(args),
        )
    write_page(args.html, render_view_page(scene, place=args.place))
    for note in scene.notes:
        print(note, file=sys.stderr)


VERBS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "ls": ls,
    "show": show,
    "plot": plot_curves,
    "view": view,
}


@contextmanager
def _open_steps(args: argparse.Namespace) -> Iterator[SavedTensors]:
    with open_tensors(args.place) as saved:
        require_tensors(saved, args.place)
        if not saved.steps():
            raise UsageRefused(
                f"no step is complete in {args.place} yet", fix="wait for the first steps"
            )
        require_mode(saved, _mode(args))
        yield saved


def _mode(args: argparse.Namespace) -> Mode | None:
    return next((mode for mode in MODES if args.mode == mode.lower()), None)


def _say_left_out(count: int) -> None:
    if count > 0:
        print(f"… and {count:,} more tensors: narrow it by --name", file=sys.stderr)


def _dump(value: object, indent: int | None = 2) -> str:
    return json.dumps(value, indent=indent, allow_nan=False)
