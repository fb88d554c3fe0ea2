"""Trainings, healthy and sick, as the files that the sampler and the step recorder leave."""

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
    other, ready = parts.pop("other", 0.002), parts.pop("ready_batches", -1)
    flags = parts.pop("flags", 0)
    return {
        **{**parts, "flags": flags, "ready_batches": ready},
        "total": sum(parts.values()) + other,
    }


def write_run(folder, steps, *, loader=LOADER):
    """Files of a run of one rank on a host with two cores; returns its seconds in the whole."""
    end = write_steps(folder, steps, cpus=int(CORES), threads=2, loaders=(loader,))
    interval = max(0.5, (end - START) / 400)
    count = int((end - START) / interval)
    figures = {
        ("cpu", "CPUUtilization", "cpu0"): np.full(count, 85.0),
        ("cpu", "CPUUtilization", "cpu1"): np.full(count, 85.0),
        ("cpu", "ContainerCPUUtilization", "container"): np.full(count, 85.0),
        ("cpu", "CPULimit", "container"): np.full(count, CORES),
        ("cpu", "RunnableThreads", "container"): np.full(count, 2.0),
        ("memory", "MemoryBytes", "used"): np.full(count, 2.4e9),
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
    return write_run(folder, [make_step() for _ in range(300)])


def write_slow_loader(folder):
    steps = [make_step(data_wait=0.2, ready_batches=int(n % 4 == 0)) for n in range(300)]
    write_run(folder, steps, loader={**LOADER, "num_workers": 8})
