"""`stoker simulate-spot`: how often to save, and what a job costs with interruptions."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from stoker.cli.spot.plot import make_svg
from stoker.cli.spot.report import BLOCKS, PLAIN_BLOCKS, Prices, Report, make_json, render
from stoker.cli.spot.simulation import (
    Stays,
    Work,
    daly_interval,
    exponential_stays,
    forecast,
    trace_stays,
)
from stoker.machine.docker import ask
from stoker.machine.failures import UsageRefused
from stoker.machine.units import read_seconds, show_seconds
from stoker.platform.jobs.spot_trace import read_trace

_AUTO_FACTORS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_RENDER_SECONDS = 120


def run(args: argparse.Namespace) -> int:
    """Simulate and report."""
    if args.plot and args.plot.suffix not in {".svg", ".png"}:
        raise UsageRefused(f"{args.plot} is neither .svg nor .png", fix="--plot spot.svg")
    report = make_report(args)
    blocks = BLOCKS if "utf" in (sys.stdout.encoding or "").lower() else PLAIN_BLOCKS
    print(make_json(report) if args.json else render(report, blocks=blocks))
    if args.plot:
        write_plot(args.plot, make_svg(report))
        print(f"simulate-spot: {args.plot}", file=sys.stderr)
    return 0


def make_report(args: argparse.Namespace) -> Report:
    """Everything that was asked for.

    Raises:
        UsageRefused: a number that makes no sense, or a trace that cannot be read.
    """
    work = make_work(args)
    stays, mean_up_seconds, described = make_stays(args)
    daly = daly_interval(work.save_cost_seconds, mean_up_seconds)
    return Report(
        work=work,
        interruptions=f"{described}; {args.runs:,} runs, seed {args.seed}",
        daly_seconds=daly,
        forecasts=forecast(
            work,
            intervals_seconds=make_intervals(args.intervals, daly),
            stays=stays,
            runs=args.runs,
        ),
        prices=Prices(spot=args.price, on_demand=args.on_demand_price),
    )


def make_work(args: argparse.Namespace) -> Work:
    """What the job has to do, checked."""
    for name in ("steps", "runs", "instances"):
        _require(getattr(args, name) > 0, f"--{name} {getattr(args, name)} is not above 0")
    work = Work(
        steps=args.steps,
        step_seconds=read_seconds(args.step_time),
        save_cost_seconds=read_seconds(args.save_cost),
        restart_cost_seconds=read_seconds(args.restart_cost),
    )
    _require(work.step_seconds > 0, f"--step-time {args.step_time} is not above 0")
    return work


def make_stays(args: argparse.Namespace) -> tuple[Stays, float, str]:
    """The stays of machines, their mean length in seconds, and where they come from."""
    if args.trace:
        trace = read_trace(args.trace, instances=args.instances)
        described = (
            f"{trace.name}, a machine {trace.availability:.0%} of the time,"
            f" interrupted every {show_seconds(trace.mean_up_seconds)} up"
        )
        return trace_stays(trace, seed=args.seed), trace.mean_up_seconds, described
    up, down = args.mean_time_between * 3600, args.mean_downtime * 3600
    _require(up > 0, f"--mean-time-between {args.mean_time_between} is not above 0")
    _require(down >= 0, f"--mean-downtime {args.mean_downtime} is below 0")
    stays = exponential_stays(mean_up_seconds=up, mean_down_seconds=down, seed=args.seed)
    described = f"exponential, every {show_seconds(up)} up, {show_seconds(down)} without"
    return stays, up, described


def make_intervals(text: str, daly_seconds: float) -> list[float]:
    """The intervals to try; `auto` takes powers of two around the formula's."""
    if text.strip() == "auto":
        return [daly_seconds * factor for factor in _AUTO_FACTORS]
    intervals = [read_seconds(part) for part in text.split(",")]
    _require(all(seconds > 0 for seconds in intervals), f"--intervals {text}: one is not above 0")
    return intervals


def write_plot(file: Path, svg: str) -> None:
    """Write the picture; PNG by the browser of this machine.

    Raises:
        UsageRefused: there is no browser, or it drew nothing.
    """
    if file.suffix == ".svg":
        file.write_text(svg, encoding="utf-8")
        return
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise UsageRefused(
            f"{file.name} needs one of: {', '.join(_BROWSERS)}", fix=f"--plot {file.stem}.svg"
        )
    with tempfile.TemporaryDirectory(prefix="stoker-plot-") as folder:
        page = Path(folder, "plot.html")
        page.write_text(f"<body style='margin:0'>{svg}", encoding="utf-8")
        # Chromium refuses to run as root with its sandbox, and containers have little /dev/shm.
        argv = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        argv += ["--disable-dev-shm-usage", f"--user-data-dir={folder}/profile"]
        argv += ["--window-size=860,620", f"--screenshot={file.absolute()}", page.as_uri()]
        ended = ask(argv, timeout_seconds=_RENDER_SECONDS)
    if ended.code != 0 or not file.exists():
        raise UsageRefused(
            f"{browser} drew no picture: {ended.tail[-300:]}", fix=f"--plot {file.stem}.svg"
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise UsageRefused(message, fix="see `stoker simulate-spot --help`")
