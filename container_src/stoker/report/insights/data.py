"""Data that comes too late."""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker.bus.step_records import StepFacts
from stoker.bus.system_samples import IO_WAIT, PRESSURE
from stoker.debugging.profiler_rules.dataloader import count_loaders
from stoker.report.figures.bill import Bill
from stoker.report.figures.run import Run
from stoker.report.insights.insight import (
    LEAST_SHARE,
    Insight,
    is_small,
    show_seconds,
    show_share,
)

_LEAST_TRAINING_SHARE = 0.1


def find_data_wait(run: Run, bill: Bill) -> Insight | None:
    """Steps wait for their batch, not counting the first one of an epoch."""
    waits, steps, ranks = 0.0, 0, 0
    for one in run.profile.steps_of("TRAIN"):
        usual = one.take(~one.first_of_epoch)
        waits += float(usual.part("data_wait").sum())
        steps += usual.steps
        ranks += 1
    lost = waits / ranks if ranks else 0.0
    share = lost / bill.total_seconds if bill.total_seconds else 0.0
    training = _training_seconds(run) / max(1, ranks)
    of_training = lost / training if training else 0.0
    if not steps or is_small(bill, lost) or of_training < _LEAST_TRAINING_SHARE:
        return None
    each = waits / steps
    cause, change, trials, workers = _find_cause(run)
    gain = predict_gain(run, workers)
    return Insight(
        key="data",
        title=f"The training waits for data: {show_seconds(each)} of each step, "
        f"{show_share(share)} of the job{cause}",
        change=change,
        lost_seconds=lost,
        share=share,
        saving_seconds=lost if gain is None else min(lost, gain * training),
        evidence=(
            f"{show_seconds(lost)} of {show_seconds(training)} in training steps were spent "
            f"waiting for a batch ({steps // max(1, ranks)} steps)",
            *_describe_loader(run),
            *_describe_queue(run),
            *_machine_evidence(run),
        ),
        trials=trials,
    )


def predict_gain(run: Run, workers: int) -> float | None:
    """The part of a training step that more loader workers save, 0 to 1.

    Each loads as fast as now, one batch at a time. None if that cannot be said: of fewer workers
    than now, or where it is not known how many there are.
    """
    usual = [one.take(~one.first_of_epoch) for one in run.profile.steps_of("TRAIN")]
    steps = sum(one.steps for one in usual)
    now = int(_loader(run).get("num_workers") or 0)
    if not steps or not _loader(run) or workers <= now:
        return None
    step = sum(float(one.seconds.sum()) for one in usual) / steps
    wait = sum(float(one.part("data_wait").sum()) for one in usual) / steps
    # Workers that the training waits for deliver a batch in each step together.
    loading = step * now if now else wait
    return max(0.0, 1 - max(step - wait, loading / workers) / step) if step else None


def find_epoch_start(run: Run, bill: Bill) -> Insight | None:
    """The first batch of each epoch: workers are started again and again."""
    lost, epochs, ranks = 0.0, 0, 0
    for one in run.profile.steps_of("TRAIN"):
        first = one.take(one.first_of_epoch)
        lost += float(first.part("data_wait").sum())
        epochs = max(epochs, first.steps)
        ranks += 1
    lost /= max(1, ranks)
    share = lost / bill.total_seconds if bill.total_seconds else 0.0
    if epochs < 3 or share < LEAST_SHARE:
        return None
    loader = _loader(run)
    is_restarted = bool(loader.get("num_workers")) and not loader.get("persistent_workers")
    crowd, fitting = _find_crowd(run)
    change = (
        "DataLoader(persistent_workers=True): the workers are started once"
        if is_restarted
        else "prepare the data set once, before the first epoch"
    )
    return Insight(
        key="epoch-start",
        title=f"The first batch of each of {epochs} epochs comes late: "
        f"{show_seconds(lost / epochs)} each, {show_share(share)} of the job{crowd}",
        change=f"{change}; and num_workers={fitting}" if crowd else change,
        lost_seconds=lost,
        share=share,
        saving_seconds=lost * (1 - 1 / epochs),
        evidence=_describe_loader(run),
        trials=(
            *(("persistent_workers",) if is_restarted else ()),
            *(("workers",) if crowd else ()),
        ),
    )


def find_transfer(run: Run, bill: Bill) -> Insight | None:
    """Copies of batches to the device."""
    share = bill.share("transfer")
    if share < LEAST_SHARE:
        return None
    is_pinned = bool(_loader(run).get("pin_memory"))
    return Insight(
        key="transfer",
        title=f"Copies of batches to the device take {show_share(share)} of the job",
        change="move the preparation of batches to the device, or send smaller types (uint8)"
        if is_pinned
        else "DataLoader(pin_memory=True) and .to(device, non_blocking=True)",
        lost_seconds=bill.seconds["transfer"],
        share=share,
        evidence=_describe_loader(run),
        trials=() if is_pinned else ("pin_memory",),
    )


def _find_cause(run: Run) -> tuple[str, str, tuple[str, ...], int]:
    """Why batches are late, in words that follow the title; what to change; what to try.

    The last is the number of workers that the change names; 0 without.
    """
    for node in run.profile.nodes:
        facts = [one for one in run.profile.facts if one.host == node]
        loaders, cores = count_loaders(facts), run.profile.cores(node)
        workers = int(_loader(run).get("num_workers") or 0)
        if loaders is None or not cores:
            continue
        fitting = _fitting(cores, facts)
        crowd, _ = _find_crowd(run)
        if crowd:
            return (
                crowd,
                f"num_workers={fitting}: more workers than cores only wait for "
                "each other; then less work for each sample, or prepared data",
                ("workers",),
                fitting,
            )
        if not workers:
            return (
                "; batches are loaded in the training process itself (num_workers=0)",
                f"num_workers={fitting}: they load while the model computes",
                ("workers",),
                fitting,
            )
        if loaders < 0.7 * cores:
            return (
                f"; {loaders} loader workers on {cores:g} cores",
                f"num_workers={fitting}, one for each core",
                ("workers", "prefetch"),
                fitting,
            )
    return (
        "",
        "less work for each sample, prepared data in larger files, or a larger prefetch_factor",
        ("prefetch", "workers"),
        0,
    )


def _find_crowd(run: Run) -> tuple[str, int]:
    """More than two workers for each core of a host, in words, and how many would fit."""
    for node in run.profile.nodes:
        facts = [one for one in run.profile.facts if one.host == node]
        loaders, cores = count_loaders(facts) or 0, run.profile.cores(node)
        if _loader(run).get("num_workers") and 0 < 2 * cores < loaders:
            return f"; {loaders} loader workers share {cores:g} cores", _fitting(cores, facts)
    return "", 0


def _fitting(cores: float, facts: list[StepFacts]) -> int:
    """Workers of one rank, if all ranks of a host share its cores."""
    return max(1, int(cores) // max(1, len({one.rank for one in facts})))


def _loader(run: Run) -> dict[str, Any]:
    loaders = [dict(loader) for facts in run.profile.facts for loader in facts.loaders]
    training = [one for one in loaders if str(one.get("phase") or "train").lower() != "eval"]
    return (training or loaders or [{}])[0]


def _describe_loader(run: Run) -> tuple[str, ...]:
    loader = _loader(run)
    if not loader:
        return ("no torch DataLoader was seen",)
    names = ("batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
    shown = ", ".join(f"{name}={loader[name]}" for name in names if name in loader)
    return (f"DataLoader({shown})",)


def _describe_queue(run: Run) -> tuple[str, ...]:
    """How often the loader's workers had nothing ready."""
    queues = [one.ready_batches for one in run.profile.steps_of("TRAIN")]
    parts = [queue[queue >= 0] for queue in queues if queue is not None]
    known = np.concatenate(parts) if parts else np.empty(0)
    if not len(known):
        return ()
    return (f"no batch lay ready in {show_share(float(np.mean(known == 0)))} of the steps",)


def _machine_evidence(run: Run) -> tuple[str, ...]:
    said = []
    for node in run.profile.nodes:
        used, cores = run.profile.cpu(node), run.profile.cores(node)
        if used is not None:
            said.append(f"the {cores:g} cores of {node} were used to {np.mean(used.values):.0f} %")
        waiting = run.profile.total(node, IO_WAIT)
        if waiting is not None and np.mean(waiting.values) > 10:
            said.append(f"they waited for the disk {np.mean(waiting.values):.0f} % of the time")
        pressure = run.profile.samples.get(node, {}).get((PRESSURE, "cpu some"))
        if pressure is not None and len(pressure) and np.mean(pressure.values) > 20:
            share = float(np.mean(pressure.values))
            said.append(f"processes waited for a core {share:.0f} % of the time")
    return tuple(said)


def _training_seconds(run: Run) -> float:
    return sum(float(one.seconds.sum()) for one in run.profile.steps_of("TRAIN"))
