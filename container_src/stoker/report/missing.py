"""What the report cannot say, and why."""

from __future__ import annotations

from stoker.bus.system_samples import GPU_UTILIZATION
from stoker.report.figures.run import Run


def find_missing(run: Run) -> list[str]:
    """One line for each thing that is not there."""
    profile = run.profile
    missing = list(run.remarks)
    if not profile.samples:
        missing.append(
            "No hardware was sampled: profiling was off, or the sampler was killed. "
            "Fix: STOKER_PROFILE=auto, or a ProfilerConfig."
        )
    elif not any(profile.devices(node, GPU_UTILIZATION) for node in profile.nodes):
        missing.append(
            "No GPU was measured: the machine has none, or the container has no driver with NVML."
        )
    steps = sum(one.steps for one in profile.steps)
    if not steps:
        missing.append(
            "No step was measured: the script trains no torch.nn model, imports torch in another "
            "process, or ended before its first step."
        )
    elif steps == 1:
        missing.append("Only one step was measured: there is nothing to compare it with.")
    if not profile.phases:
        missing.append(
            "The launcher's phases are not there: start and installation have no figures."
        )
    absent = sorted(set(run.hosts) - set(profile.nodes))
    if absent:
        missing.append(
            f"Files of {', '.join(absent)} are not there: the leader made this page in its "
            "container, and each host writes to its own disk. stoker report JOB has all hosts, as "
            "has the page that the local platform keeps in S3."
        )
    missing += [
        f"{facts.host} rank {facts.rank}: {facts.reason}"
        for facts in profile.facts
        if facts.reason
    ]
    if not run.traces:
        missing.append(
            "No operators: no trace was recorded. Fix: STOKER_PROFILE='auto steps=10-13', or "
            "job.profile() in the script."
        )
    return missing
