"""Ending the job a rule belongs to, and no other."""

from __future__ import annotations

from collections.abc import Callable

from stoker.bus.stop import PLATFORM_VARIABLE, StopRequest, read_stop_request, write_stop_request
from stoker.contract.job import Job
from stoker.debugging.actions.notice import Notice
from stoker.errors import ActionFailed

LONGEST_REASON = 300
"""In characters: SageMaker keeps 1024 of a whole outcome."""


def stop_job(job: Job, notice: Notice, *, prefix: str, say: Callable[[str], None]) -> str:
    """Asks the launcher to end the job; of several hosts the platform ends all.

    Args:
        job: the one of this container.
        notice: why.
        prefix: how the names of the jobs begin that may be stopped; empty for this one.
        say: for what the user should know although it worked.

    Returns:
        What was done.

    Raises:
        ActionFailed: the prefix means another job, or the request cannot be written.
    """
    if prefix and job.name and not job.name.startswith(prefix):
        raise ActionFailed(
            f"StopTraining is for jobs that begin with {prefix!r}, but this is {job.name!r}",
            fix="a rule stops its own job only: leave the prefix out, or correct it",
        )
    before = read_stop_request(job.paths)
    if before is not None:  # outcome, log and checkpoint name one and the same rule
        return f"it was asked for already, by {before.by}"
    # One host needs no platform: the launcher is quicker, and needs no permission.
    by_platform = len(job.cluster.hosts) > 1 and _is_platforms(job, say)
    request = StopRequest(
        by=f"rule {notice.rule}",
        step=notice.step,
        reason=notice.finding.message[:LONGEST_REASON],
        is_sent_by_platform=by_platform,
    )
    try:
        write_stop_request(job.paths, request)
    except OSError as error:
        raise ActionFailed(
            f"the stop cannot be written down: {error}", fix="free some disk"
        ) from None
    return "the platform was asked" if by_platform else "the launcher was asked"


def _is_platforms(job: Job, say: Callable[[str], None]) -> bool:
    """Whether the platform will send SIGTERM.

    To one host alone it makes the ranks of the others fail, waiting for those that have left.
    """
    return job.environ.get(PLATFORM_VARIABLE) == "1" or _ask_service(job, say)


def _ask_service(job: Job, say: Callable[[str], None]) -> bool:
    # boto3 takes a second to import; a job of one host never needs it.
    try:
        from stoker.debugging.actions.aws import stop_training_job

        stop_training_job(job.name, region=job.region)
    except (ActionFailed, ImportError) as error:
        why = getattr(error, "message", error)
        say(f"the service could not be asked to stop all hosts ({why}); stopping this one alone")
        return False
    return True
