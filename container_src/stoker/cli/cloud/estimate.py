"""What a job will cost, before it runs: the most it can, and what it likely will."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from stoker.bus.metric_line import read_step
from stoker.cli.client.platform_api import open_api
from stoker.cli.client.server import find_server
from stoker.cloud.job_memory import find_similar, hash_params
from stoker.cloud.request import read_machines
from stoker.cost.bill import Machines, find_machines, show_usd
from stoker.machine.environment import default_root
from stoker.machine.units import show_seconds
from stoker.platform.model.root import Root

_MOST_JOBS = 50
# `job.log` writes its lines in batches: over a shorter time their time stamps say little.
_SHORTEST_SECONDS = 2.0


def describe_cost(
    request: Mapping[str, Any],
    *,
    region: str | None,
    script: Path,
    entry_point: str,
    jobs: int = 1,
    steps: int | None = None,
) -> list[str]:
    """Lines for the user.

    Args:
        request: CreateTrainingJob's.
        region: where it will run.
        script: the file of this machine.
        entry_point: its name in the source folder, as jobs have it.
        jobs: how many such jobs: the trials of a search.
        steps: of the whole training, to estimate from a job of this machine.
    """
    machines = find_machines(read_machines(request), region or "")
    shown = " + ".join(f"{count} × {kind}" for kind, count in machines.counts.items())
    if not region:
        return ["cost: unknown, no region is configured (pass --region, such as us-east-1)"]
    if machines.missing:
        what = f"no price is known of {', '.join(machines.missing)} in {region}"
        return [f"cost: {what} (stoker prices update --region {region})"]
    lines = list(_explain_most(request, machines, shown, jobs))
    if similar := find_similar(str(script), machines.counts):
        usd = (machines.cost_of(similar.billable_seconds or 0) or 0) * jobs
        took = show_seconds(similar.billable_seconds or 0)
        is_same = similar.params_hash == hash_params(request)
        other = "" if is_same else ", with other hyperparameters"
        lines.append(f"  likely about {show_usd(usd)}: {similar.name} was billed {took}{other}")
    if steps:
        lines.append(_explain_steps(entry_point, steps, machines, jobs))
    return [*lines, *(f"  {price.show_source()}" for price in machines.prices.values())]


def _explain_most(
    request: Mapping[str, Any], machines: Machines, shown: str, jobs: int
) -> Iterator[str]:
    seconds = request["StoppingCondition"].get("MaxRuntimeInSeconds", 86_400)
    most = (machines.cost_of(seconds) or 0) * jobs
    times = f"{jobs} jobs of " if jobs > 1 else ""
    spot = ", less with spot" if request.get("EnableManagedSpotTraining") else ""
    yield f"cost: at most {show_usd(most)}{spot}: {times}{shown} for {show_seconds(seconds)}"
    if kept := request["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
        waiting = machines.cost_of(kept) or 0
        yield f"  and {show_usd(waiting)} for the warm pool, unless a job uses it"


def _explain_steps(script: str, steps: int, machines: Machines, jobs: int) -> str:
    root = Root(default_root())
    if find_server(root) is None:
        return (
            "  --steps: the local platform, which has the jobs, is down: stoker local up --detach"
        )
    measured = _measure_locally(script, root)
    if measured is None:
        return (
            f"  --steps: no job of {script} on this machine has logged steps by job.log for"
            f" {_SHORTEST_SECONDS:g} s: run one, then ask again"
        )
    job, seconds_per_step = measured
    usd = (machines.cost_of(steps * seconds_per_step) or 0) * jobs
    return (
        f"  {show_usd(usd)} for {steps} steps of {show_seconds(seconds_per_step)}, as {job} took"
        " on this machine: a GPU is quicker"
    )


def _measure_locally(script: str, root: Root) -> tuple[str, float] | None:
    """The newest job of the script on the local platform, and its seconds for a step."""
    api = open_api(root)
    # The newest come first: older jobs say little about today's script.
    for summary in islice(api.list_jobs(), _MOST_JOBS):
        name = summary["TrainingJobName"]
        if api.describe(name).get("HyperParameters", {}).get("sagemaker_program") != script:
            continue
        seen = [
            (step, line.time_ms / 1000)
            for line in api.read_log(name, {})
            if (step := read_step(line.text)) is not None
        ]
        if not seen:
            continue
        (first, began), (last, ended) = seen[0], seen[-1]
        if last > first and ended - began >= _SHORTEST_SECONDS:
            return name, (ended - began) / (last - first)
    return None
