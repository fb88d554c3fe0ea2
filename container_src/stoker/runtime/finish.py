"""What follows the worker's end: markers for its readers, and how the job ended."""

from __future__ import annotations

import os

from stoker.bus.stop import Left, StopRequest, read_left
from stoker.contract.outcome import Outcome, read_failure
from stoker.runtime.signals import SIGTERM, stop_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.contract.job import Job
    from stoker.runtime.log import Log
    from stoker.runtime.watch import Ended


def make_outcome(
    job: Job,
    ended: Ended,
    *,
    crash_dir: str,
    launcher: str,
    mask: Callable[[str], str],
) -> Outcome:
    """Decides how the job ended. Nothing is written yet, so nothing can change the verdict."""
    left = read_left(job.paths)
    # A rule's stop before the platform's: it is a success (decision 29), and the platform may have
    # stopped the job because of it.
    if ended.stopped_by is not None and _has_stopped(ended, launcher):
        return Outcome(kind="stopped", exit_code=0, reason=_by_rule(ended, ended.stopped_by, left))
    if ended.stop_signal is not None:
        return _stopped(ended, ended.stop_signal, launcher, left)
    if ended.exit_code == 0 and left is not None:  # a rule's request, which the worker followed
        return Outcome(kind="stopped", exit_code=0, reason=str(left))
    if ended.exit_code == 0 and launcher == "toolkit":
        return _toolkit_outcome(job)
    if ended.exit_code == 0:
        return Outcome(kind="success", exit_code=0)
    is_module = launcher == "toolkit" and job.environ.get("SAGEMAKER_TRAINING_MODULE")
    if is_module and (reason := read_failure(job.paths.failure_file)):
        # The module is the framework, so what the toolkit says about it is the reason.
        return Outcome(kind="failed", exit_code=ended.exit_code, reason=mask(reason))
    try:
        # `re`, `enum` and the hints cost 6 ms, which only a job that failed pays.
        from stoker.runtime.diagnosis import diagnose

        found = diagnose(job, ended, crash_dir=crash_dir, launcher=launcher, mask=mask)
    except Exception as fault:  # a mistake in finding the reason must not change the code
        reason = f"exit code {ended.exit_code}; finding the reason failed: {fault!r}"
        return Outcome(kind="failed", exit_code=ended.exit_code, reason=reason)
    if ended.stopped_by is not None and ended.was_told and found.is_exit:
        # A handler of SIGTERM that ends with sys.exit(1) has nothing to complain about.
        reason = f"{_by_rule(ended, ended.stopped_by, left)}, exit code {ended.exit_code}"
        return Outcome(kind="stopped", exit_code=0, reason=reason)
    return Outcome(kind="failed", exit_code=found.exit_code, reason=found.reason)


def write_end_markers(job: Job, log: Log, *, has_rules: bool = False) -> None:
    """Tells readers of tensors and profiles that nothing more will come.

    smdebug leaves that to the platform when it runs in a job, and its readers wait for the marker
    without a limit. The evaluator of rules waits for the marker of the tensors even if the worker
    has never saved one.
    """
    # Jobs without rules, hook and profiler do not pay for these imports.
    from stoker.contract.debugger import END_MARKER, profiler_dir, tensors_dir
    from stoker.contract.files import open_regular

    profiles = profiler_dir(job.paths, job.services.profiler)
    tensors = tensors_dir(job.paths, job.services.debug_hook)
    for folder in (tensors, f"{profiles}/system", f"{profiles}/framework"):
        is_awaited = has_rules and folder == tensors
        if not is_awaited and not os.path.isdir(folder):
            continue
        try:
            os.makedirs(folder, exist_ok=True)
            os.close(open_regular(f"{folder}/{END_MARKER}", os.O_WRONLY | os.O_CREAT))
        except OSError as error:
            log.warning(f"{folder}/{END_MARKER} cannot be written: {error.strerror}")


def _has_stopped(ended: Ended, launcher: str) -> bool:
    """Whether it ended because of the stop request, and not for another reason."""
    if ended.exit_code in (0, 128 + SIGTERM) or ended.was_killed:
        return True
    # torchrun says 1 even when every worker left with 0; behind the others we cannot see.
    is_hidden = launcher in ("drivers", "toolkit") or "SignalException" in ended.stderr_tail
    return launcher != "python" and ended.exit_code == 1 and is_hidden


def _by_rule(ended: Ended, request: StopRequest, left: Left | None) -> str:
    where = f" at step {request.step}" if request.step >= 0 else ""
    why = f": {request.reason}" if request.reason else ""
    is_saved = left is not None and left.checkpoint >= 0
    saved = f", checkpoint {left.checkpoint} saved" if left is not None and is_saved else ""
    killed = ", and had to be killed" if ended.was_killed else ""
    return f"by {request.by}{where}{why}{saved}{killed}"


def _stopped(ended: Ended, stop_signal: int, launcher: str, left: Left | None) -> Outcome:
    code = ended.exit_code
    if launcher != "python" and code == 1:
        code = 128 + stop_signal  # torchrun says 1 even when every worker left with 0
    manner = "and had to be killed" if ended.was_killed else f"exit code {code}"
    how = str(left) if left is not None else f"by {stop_name(stop_signal)}"
    return Outcome(kind="stopped", exit_code=code, reason=f"{how}, {manner}")


def _toolkit_outcome(job: Job) -> Outcome:
    """The toolkit exits 0 on some failures; its success file is written on success only."""
    # Of this attempt: run_guarded has removed an older one.
    if os.path.exists(job.paths.success_file):
        return Outcome(kind="success", exit_code=0)
    reason = read_failure(job.paths.failure_file) or "the stock toolkit reported no success"
    return Outcome(kind="failed", exit_code=1, reason=reason)
