"""Checkpoints, evaluation, slow ranks, preparation: what takes time in addition to training."""

from __future__ import annotations

import numpy as np

from stoker.debugging.profiler_rules.skewed_ranks import OWN_PARTS, find_slowest, own_seconds
from stoker.report.figures.bill import HEADINGS, Bill
from stoker.report.figures.headroom import find_batch
from stoker.report.figures.run import Run
from stoker.report.insights.insight import (
    LARGE_SHARE,
    LEAST_SECONDS,
    Insight,
    is_small,
    show_seconds,
    show_share,
)
from stoker.report.insights.other_work import OTHER_SECONDS


def find_skew(run: Run, bill: Bill) -> Insight | None:
    """One rank is slower, and all wait for it."""
    ranks = [one for one in run.profile.steps_of("TRAIN") if len(one) > 1]
    if len({(one.node, one.rank) for one in ranks}) < 2:
        return None
    whole = {one.name: float(np.median(one.each[1:])) for one in ranks}
    # Without the first step: what happens once there says nothing about the others.
    own = {one.name: float(np.median(own_seconds(one)[1:])) for one in ranks}
    slowest, ratio = find_slowest(whole, own)
    slow = next(one for one in ranks if one.name == slowest)
    lost = float(slow.seconds.sum()) * (1 - 1 / ratio)
    share = lost / bill.total_seconds if bill.total_seconds else 0.0
    if ratio < 1.15 or is_small(bill, lost):
        return None
    others = [one for one in ranks if one.name != slowest]
    part = max(
        OWN_PARTS,
        key=lambda name: (
            float(np.median(slow.part(name) / slow.counts))
            - min(float(np.median(one.part(name) / one.counts)) for one in others)
        ),
    )
    if part in ("checkpoint", "logging"):
        return None  # usually one rank's alone: they have insights of their own
    return Insight(
        key="skew",
        title=f"{slowest} is slower than the others, which wait for it: "
        f"{show_seconds(lost)}, {show_share(share)} of the job",
        change="give each rank the same amount of data and of other work"
        + (": it is slow at loading its data" if part == "data_wait" else ""),
        lost_seconds=lost,
        share=share,
        saving_seconds=lost,
        evidence=(
            f"a step would take {1 / ratio:.2f} of its time without this rank's delay",
            f"most of the difference is in its {part.replace('_', ' ')}",
            *(f"{name}: {show_seconds(seconds)} of its own work" for name, seconds in own.items()),
        )[:10],
    )


def find_checkpoints(run: Run, bill: Bill) -> Insight | None:
    """Saving takes a good part of the time."""
    share, lost = bill.share("checkpoint"), bill.seconds["checkpoint"]
    if is_small(bill, lost):
        return None
    saves = steps = 0
    for one in run.profile.steps:
        saves = max(saves, int((one.part("checkpoint") > 0).sum()))
        steps = max(steps, one.steps)
    each = lost / saves if saves else lost
    # As often as costs 1 % of the time.
    of_training = lost / max(bill.training_seconds, 1e-9)
    fitting = max(1, int(np.ceil(steps / max(1, saves) * of_training / 0.01))) if steps else 0
    return Insight(
        key="checkpoint",
        title=f"Checkpoints take {show_share(share)} of the job: {saves} of "
        f"{show_seconds(each)} in {steps} steps",
        change=f"save every {fitting} steps, or in the background: "
        "stoker.job().checkpoints saves while the training continues",
        lost_seconds=lost,
        share=share,
        saving_seconds=max(0.0, lost - 0.01 * bill.total_seconds),
        evidence=(f"{show_seconds(lost)} in {saves} checkpoints",),
        trials=("save_interval",),
    )


def find_logging(run: Run, bill: Bill) -> Insight | None:
    """Logging inside steps."""
    share, lost = bill.share("logging"), bill.seconds["logging"]
    if is_small(bill, lost):
        return None
    training = run.profile.steps_of("TRAIN")
    steps = max((one.steps for one in training), default=0)
    logged = max((int((one.part("logging") > 0).sum()) for one in training), default=0)
    return Insight(
        key="logging",
        title=f"Logging takes {show_share(share)} of the job: "
        f"{show_seconds(lost / max(1, logged))} in {logged} of {steps} steps",
        change="log every tenth step; .item() waits for the device, so call it less often, too",
        lost_seconds=lost,
        share=share,
        saving_seconds=0.9 * lost,
    )


def find_evaluation(run: Run, bill: Bill) -> Insight | None:
    """Evaluation takes long compared with the training."""
    share, lost = bill.share("evaluation"), bill.seconds["evaluation"]
    is_large = share >= 0.2 or lost >= LARGE_SHARE * bill.training_seconds
    if lost < LEAST_SECONDS or not is_large:
        return None
    series = run.profile.steps_of("EVAL")
    steps = sum(one.steps for one in series)
    waits = sum(float(one.part("data_wait").sum()) for one in series)
    total = max(1e-9, sum(float(one.seconds.sum()) for one in series))
    waiting = (
        (f"{show_share(waits / total)} of it is waiting for data",) if waits > 0.2 * total else ()
    )
    return Insight(
        key="evaluation",
        title=f"Evaluation takes {show_share(share)} of the job",
        change="evaluate less often or on a part of the data, with a larger batch"
        + (" and its own loader workers" if waiting else ""),
        lost_seconds=lost,
        share=share,
        # A guess: half as many evaluations.
        saving_seconds=lost / 2,
        evidence=(f"{steps} evaluation steps, {show_seconds(lost)}", *waiting),
    )


def find_small_batch(run: Run, bill: Bill) -> Insight | None:
    """Steps so short that what is done once per step outweighs the work for its samples."""
    ranks = run.profile.steps_of("TRAIN")
    if not ranks:
        return None
    one = max(ranks, key=lambda each: each.steps)
    batch = find_batch(run.profile, one.node)
    if not batch or batch > 16 or one.steps < 20:
        return None
    work = one.part("forward") + one.part("backward")
    rest = np.maximum(0, one.other)
    if float(np.median(rest / one.counts)) > OTHER_SECONDS:
        rest = np.zeros(len(one))  # too much for what Python does: an insight of its own
    fixed = one.part("optimizer") + rest
    total = float(one.seconds.sum()) or 1e-9
    fixed_share = float(fixed.sum()) / max(1e-9, float(fixed.sum() + work.sum()))
    each = float(np.median(one.each))
    used = run.profile.cpu(one.node)
    is_idle = used is not None and len(used) > 0 and float(np.median(used.values)) < 70
    if each > 0.05 or not (fixed_share > 0.25 or is_idle):
        return None
    lost = float((fixed + work).sum()) * max(fixed_share, 0.25)
    share = lost / bill.total_seconds if bill.total_seconds else 0.0
    if is_small(bill, lost):
        return None
    return Insight(
        key="batch",
        title=f"The batch is tiny: {batch} samples in {show_seconds(each)}; "
        f"{show_share(fixed_share)} of the compute does not depend on the batch",
        change=f"a batch of {batch * 8} or more, with the learning rate adapted",
        lost_seconds=lost,
        share=share,
        saving_seconds=float(fixed.sum()) * 7 / 8,
        evidence=(
            f"{one.steps} steps of {batch} samples",
            f"optimizer and Python take {show_share(float(fixed.sum()) / total)} of a step",
        ),
        trials=("batch_size",),
    )


def find_preparation(run: Run, bill: Bill) -> Insight | None:
    """The job before its first step."""
    name = max(
        ("start", "download", "install", "script"), key=lambda heading: bill.seconds[heading]
    )
    share, lost = bill.share(name), bill.seconds[name]
    has_steps = any(len(one) for one in run.profile.steps)
    if share < 0.1 or lost < 20 or (name == "script" and not has_steps):
        return None
    changes = {
        "start": "a warm pool (keep_alive_period_in_seconds) keeps machines for the next job",
        "download": "input_mode='FastFile' streams the data while the training runs",
        "install": "install the packages in the image: FROM stoker, RUN pip install …",
        "script": "look at what the script does before it trains: imports, data that is prepared "
        "in each job, a model that is downloaded",
    }
    return Insight(
        key=name,
        title=f"{show_share(share)} of the job passes before its first step: {HEADINGS[name]}, "
        f"{show_seconds(lost)}",
        change=changes[name],
        lost_seconds=lost,
        share=share,
        saving_seconds=None if name == "script" else 0.9 * lost,
    )
