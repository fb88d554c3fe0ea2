"""Machines that are used too little, too much, or run full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stoker.bus.system_samples import GPU_UTILIZATION, MEMORY_BYTES, PRESSURE, RUNNABLE
from stoker.debugging.profiler_rules.cpu_memory_increase import memory_percent
from stoker.debugging.profiler_rules.dataloader import count_loaders
from stoker.debugging.profiler_rules.profile import Profile, StepSeries
from stoker.report.figures.bill import Bill
from stoker.report.figures.run import Run
from stoker.report.insights.insight import Insight, is_small, show_seconds, show_share

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

_LEAST_SNAPSHOTS = 20  # ten seconds at the usual interval
_LEAST_GROWTH = 3.0  # percentage points


def find_threads(run: Run, bill: Bill) -> Insight | None:
    """More threads of torch than cores; loader workers are another matter."""
    for node in run.profile.nodes:
        facts = [one for one in run.profile.facts if one.host == node]
        cores = run.profile.cores(node)
        threads = sum({one.rank: one.threads for one in facts}.values())
        if not cores or threads <= 1.5 * cores:
            continue
        runnable = run.profile.one(node, RUNNABLE)
        waiting = run.profile.samples.get(node, {}).get((PRESSURE, "cpu some"))
        compute = bill.seconds["compute"] + bill.seconds["evaluation"]
        # Threads beyond the cores do not compute: they make the others wait.
        lost = compute * (1 - cores / threads)
        if is_small(bill, lost):
            continue
        evidence = [
            f"{threads} threads of torch on {cores:g} cores of {node}",
            f"{len({one.rank for one in facts})} ranks, {count_loaders(facts) or 0} loaders",
        ]
        if runnable is not None:
            evidence.append(f"{np.median(runnable.values):.0f} threads want to run at a time")
        if waiting is not None and len(waiting):
            evidence.append(f"some wait for a core {np.mean(waiting.values):.0f} % of the time")
        share = lost / bill.total_seconds if bill.total_seconds else 0.0
        fitting = max(1, int(cores) // max(1, len({one.rank for one in facts})))
        return Insight(
            key="threads",
            title=f"{threads} threads compute on {cores:g} cores of {node}: that costs at most "
            f"{show_share(share)} of the job",
            change=f"OMP_NUM_THREADS={fitting}, or torch.set_num_threads({fitting})",
            lost_seconds=lost,
            share=share,
            evidence=tuple(evidence),
            trials=("threads",),
        )
    return None


def find_memory_growth(run: Run, bill: Bill) -> Insight | None:
    """Memory that grows as long as the training runs."""
    for node in run.profile.nodes:
        series = memory_percent(run.profile, node)
        if series is None:
            continue
        steps = [one for one in run.profile.steps_of("TRAIN") if one.node == node and len(one)]
        first, last = _steady_time(steps)
        training = series.between(first, last)
        if len(training) < _LEAST_SNAPSHOTS:
            continue
        times = training.times - training.times[0]
        slope, _ = np.polyfit(times, training.values, 1)
        grown = float(slope * times[-1])
        steady = _is_steady(training.values)
        if grown < _LEAST_GROWTH or not steady:
            continue
        left = (100 - float(training.values[-1])) / float(slope)
        begun = [one.take(one.starts >= first) for one in steps]
        count = max((one.steps for one in begun), default=0)
        each = _bytes_of(run.profile, node, grown) / count if count else 0.0
        per_step = f", {each / 1e6:.3g} MB a step" if each else ""
        return Insight(
            key="memory",
            title=f"The memory of {node} grows all the time: by {grown:.0f} points in "
            f"{show_seconds(float(times[-1]))}{per_step}; full in {show_seconds(left)}",
            change="keep no tensor of a step beyond it: loss.item() in lists, no retain_graph, no "
            "list that grows with each batch",
            lost_seconds=0.0,
            share=0.0,
            evidence=(
                f"from {training.values[0]:.0f} % to {training.values[-1]:.0f} % of the memory",
            ),
            # A job that ends long before it is full only looks odd.
            is_danger=left < 5 * float(times[-1]),
        )
    return None


def find_idle_devices(run: Run, bill: Bill) -> Insight | None:
    """GPUs that are little used though nothing else holds the training up."""
    low = []
    for node in run.profile.nodes:
        for name, series in run.profile.devices(node, GPU_UTILIZATION).items():
            mean = float(np.mean(series.values))
            if mean < 60:
                low.append((mean, f"{name} of {node}"))
    if not low or bill.share("data") > 0.1:
        return None
    mean, name = min(low)
    lost = bill.seconds["compute"] * (1 - mean / 100)
    is_single = not any(facts.autocast for facts in run.profile.facts)
    return Insight(
        key="gpu",
        title=f"{name} is used to {mean:.0f} % in the mean",
        change="a larger batch, torch.compile"
        + (", and automatic mixed precision" if is_single else "")
        + ", or a smaller instance",
        lost_seconds=lost,
        share=lost / bill.total_seconds if bill.total_seconds else 0.0,
        trials=("batch_size", "compile", *(("amp",) if is_single else ())),
    )


def find_low_cpu(run: Run, bill: Bill) -> Insight | None:
    """A machine without GPU of which a good part is not used."""
    for node in run.profile.nodes:
        used, cores = run.profile.cpu(node), run.profile.cores(node)
        if used is None or run.profile.devices(node, GPU_UTILIZATION) or cores < 2:
            continue
        inside = _during_steps(run.profile, node)
        values = used.between(*inside).values if inside else used.values
        if len(values) < _LEAST_SNAPSHOTS:
            continue
        mean = float(np.mean(values))
        if mean > 45 or bill.share("data") > 0.1 or run.profile.is_crowded(node):
            continue
        lost = bill.seconds["compute"] * (1 - mean / 100)
        return Insight(
            key="cpu",
            title=f"The {cores:g} cores of {node} are used to {mean:.0f} % "
            + ("in the training steps" if inside else "during the job"),
            change="more threads or a larger batch, or an instance with fewer cores",
            lost_seconds=lost,
            share=lost / bill.total_seconds if bill.total_seconds else 0.0,
            trials=("threads", "batch_size"),
        )
    return None


def _during_steps(profile: Profile, node: str) -> tuple[float, float] | None:
    steps = [one for one in profile.steps if one.node == node and len(one)]
    if not steps:
        return None
    return min(float(one.starts[0]) for one in steps), max(float(one.ends[-1]) for one in steps)


def _steady_time(steps: Sequence[StepSeries]) -> tuple[float, float]:
    """From the sixth step to the end of the last: before and after it memory has other reasons."""
    first = min((float(one.starts[min(5, len(one) - 1)]) for one in steps), default=0.0)
    return first, max((float(one.ends[-1]) for one in steps), default=float("inf"))


def _is_steady(values: Floats) -> bool:
    """It grows from each quarter to the next; a model that was loaded, or a cache, stops."""
    quarters = [float(np.mean(part)) for part in np.array_split(values, 4)]
    rises = np.diff(quarters)
    return bool((rises > 0.1 * (quarters[-1] - quarters[0])).all())


def _bytes_of(profile: Profile, node: str, points: float) -> float:
    limit = profile.samples.get(node, {}).get((MEMORY_BYTES, "limit"))
    return points / 100 * float(limit.values[-1]) if limit is not None and len(limit) else 0.0
