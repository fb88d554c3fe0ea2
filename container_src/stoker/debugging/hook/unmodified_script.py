"""The hook of a script that was not changed: what the job's files and variables ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stoker.bus.rule_plan import read_rule_plan
from stoker.contract.debugger import HOOK_VARIABLE, tensors_dir
from stoker.contract.job import Job, read_job
from stoker.contract.rank import read_rank
from stoker.debugging.hook.attach import Hook, Place
from stoker.debugging.hook.config import HookConfig, read_hook_config
from stoker.debugging.hook.recorder import Sink
from stoker.debugging.hook.request import is_off, merge, read_request
from stoker.debugging.need import Need
from stoker.debugging.specs import make_needs, read_specs

_OFF = ("0", "f", "false", "n", "no", "off")


def attach_to_job(make_sink: Callable[[Job], Sink | None]) -> Hook | None:
    """Attaches the hook that this job asks for; None if it is switched off.

    Args:
        make_sink: asked for someone else who gets what is saved.

    Raises:
        StokerError: a setting cannot be used.
    """
    job = read_job()
    if is_off(job.environ.get(HOOK_VARIABLE, "")):
        return None
    if job.environ.get("USE_SMDEBUG", "").lower() in _OFF:  # as on AWS's own images
        return None
    folder = tensors_dir(job.paths, job.services.debug_hook)
    return Hook(read_config(job), folder, read_needs(job), make_place(job), make_sink(job))


def read_config(job: Job) -> HookConfig:
    """From debughookconfig.json and STOKER_DEBUG together."""
    request = job.environ.get(HOOK_VARIABLE, "")
    if not request:
        return read_hook_config(job.services.debug_hook)
    if not job.services.debug_hook:
        return read_request(request)
    return merge(read_hook_config(job.services.debug_hook), read_request(request))


def read_needs(job: Job) -> list[Need]:
    """What the job's rules want, as the check of the rules has written it down."""
    rules = read_rule_plan(job.paths)
    return make_needs(read_specs(rules), code_dir=Path(job.paths.code_dir)) if rules else []


def make_place(job: Job) -> Place:
    """Launchers number their processes; where a plain script runs on each host, hosts count."""
    hosts = job.cluster.hosts
    rank = read_rank(job.environ)
    return Place(
        rank=rank.number if rank else hosts.index(job.cluster.current_host),
        ranks=rank.count if rank else len(hosts),
        checkpoint_dir=job.services.checkpoint_dir if job.services.checkpoint else None,
        is_job="TRAINING_JOB_NAME" in job.environ,
    )
