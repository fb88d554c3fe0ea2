"""Trainings with a known sickness, as the files that the sampler and the step recorder leave."""

from __future__ import annotations

import numpy as np

from stoker.bus.job_phases import JobPhase, append_phase
from tests.debugging.profiler_rules.profiles import START, write_samples, write_steps

CORES = 2.0
HEALTHY = {"data_wait": 0.005, "forward": 0.08, "backward": 0.1, "optimizer": 0.01}
LOADER = {"num_workers": 2, "batch_size": 32, "pin_memory": False, "prefetch_factor": 2}


def make_step(**changes):
    """A healthy step with some other parts; `other` is what is in no part."""
    parts = {**HEALTHY, **changes}
    flags, other = parts.pop("flags", 0), parts.pop("other", 0.002)
    return {**parts, "flags": flags, "total": sum(parts.values()) + other}


def write_run(folder, ranks, *, threads=2, loader=LOADER, memory=(30, 30), cpu=85.0):
    """Files of a run on one host with two cores; returns its seconds in the whole.

    Args: ranks: the steps of each rank.
    """
    ends = [
        write_steps(
            folder,
            steps,
            rank=rank,
            world_size=len(ranks),
            cpus=int(CORES),
            threads=threads,
            loaders=(loader,),
        )
        for rank, steps in enumerate(ranks)
    ]
    end = max(ends)
    interval = max(0.5, (end - START) / 400)
    count = int((end - START) / interval)
    used = np.linspace(*memory, count) / 100 * 8e9
    figures = {
        ("cpu", "CPUUtilization", "cpu0"): np.full(count, cpu),
        ("cpu", "CPUUtilization", "cpu1"): np.full(count, cpu),
        ("cpu", "ContainerCPUUtilization", "container"): np.full(count, cpu),
        ("cpu", "CPULimit", "container"): np.full(count, CORES),
        ("cpu", "RunnableThreads", "container"): np.full(count, float(threads * len(ranks))),
        ("memory", "MemoryBytes", "used"): used,
        ("memory", "MemoryBytes", "limit"): np.full(count, 8e9),
    }
    write_samples(folder, figures, interval=interval)
    for phase, begin, over in (("start", -1, 0), ("training", 0, end - START)):
        append_phase(
            str(folder),
            JobPhase(phase=phase, name="", start=START + begin, end=START + over, host="algo-1"),
        )
    return end - START + 1


def write_healthy(folder):
    return write_run(folder, [[make_step() for _ in range(300)]])


def write_slow_loader(folder):
    steps = [make_step(data_wait=0.2) for _ in range(300)]
    whole = write_run(folder, [steps], loader={**LOADER, "num_workers": 8})
    return 300 * 0.2 / whole


def write_skewed_rank(folder):
    """Rank 1 takes 0.1 s longer to load; rank 0 waits for it in backward."""
    fast = [make_step(backward=0.2) for _ in range(300)]
    slow = [make_step(data_wait=0.105) for _ in range(300)]
    whole = write_run(folder, [fast, slow], threads=1)
    return 300 * 0.1 / whole


def write_memory_leak(folder):
    """Its share is not one of time: megabytes of each step."""
    write_run(folder, [[make_step() for _ in range(300)]], memory=(20, 80))
    return 0.6 * 8e9 / 300 / 1e6


def write_many_threads(folder):
    steps = [make_step(forward=0.16, backward=0.2) for _ in range(300)]
    whole = write_run(folder, [steps], threads=8, cpu=99.0)
    return 300 * (0.16 + 0.2 + 0.01) * (1 - CORES / 8) / whole


def write_checkpoint_every_step(folder):
    steps = [make_step(checkpoint=0.15) for _ in range(300)]
    return 300 * 0.15 / write_run(folder, [steps])


def write_slow_evaluation(folder):
    evaluation = {"forward": 0.3, "data_wait": 0.01, "total": 0.31, "flags": 1}
    steps = []
    for _ in range(5):
        steps += [make_step() for _ in range(40)] + [evaluation] * 40
    return 200 * 0.31 / write_run(folder, [steps])


def write_tiny_batch(folder):
    step = make_step(
        data_wait=0.0002, forward=0.001, backward=0.001, optimizer=0.0015, other=0.0015
    )
    whole = write_run(
        folder, [[step for _ in range(5000)]], cpu=55.0, loader={**LOADER, "batch_size": 2}
    )
    return 5000 * 0.003 / whole


SICK = {
    "data": write_slow_loader,
    "skew": write_skewed_rank,
    "memory": write_memory_leak,
    "threads": write_many_threads,
    "checkpoint": write_checkpoint_every_step,
    "evaluation": write_slow_evaluation,
    "batch": write_tiny_batch,
}
"""What the report must name first → the run; each returns the true share of the job."""
