"""Telling the log and SageMaker how a job ended."""

from __future__ import annotations

from stoker.contract.files import remove_file
from stoker.contract.outcome import Outcome, read_failure, write_failure, write_success
from stoker.runtime.signals import stop_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.errors import StokerError
    from stoker.runtime.log import Log


# Failure files that other launchers write; the cause is never in the first place there.
_FOREIGN_TEXTS = (
    "/sm_drivers/common/utils.py",  # SDK v3's drivers
    "Training Execution failed.",
    "ExecuteUserScriptError",  # the stock toolkit
    "InstallModuleError",
    "Framework Error:",
)


def outcome_of_error(error: StokerError) -> Outcome:
    """A job that never reached the user's first line."""
    return Outcome(kind="failed", exit_code=error.exit_code, reason=str(error))


def stopped_early(stop_signal: int) -> Outcome:
    """A stop while code was fetched, packages installed or peers awaited: no one's fault."""
    return Outcome(
        kind="stopped",
        exit_code=128 + stop_signal,
        reason=f"by {stop_name(stop_signal)}, before the start",
    )


def report(outcome: Outcome, *, failure_file: str, success_file: str, log: Log) -> int:
    """Tells the log and SageMaker. Returns the exit code, whatever else goes wrong."""
    own = read_failure(failure_file)
    if any(text in own for text in _FOREIGN_TEXTS):
        remove_file(failure_file)
        own = ""
    if outcome.kind != "failed":
        manner = " " if outcome.kind == "stopped" else ": "  # "stopped by SIGTERM at step 40"
        log.info(f"{outcome.kind}{manner}{outcome.reason}" if outcome.reason else outcome.kind)
        is_trained = outcome.kind == "success" and not outcome.reason  # and no dry run
        trouble = write_success(success_file) if is_trained else None
        if trouble:
            log.warning(trouble)
        return outcome.exit_code
    log.error(f"the job failed: {outcome.reason}")
    if own:
        log.info(f"{failure_file} was written by the script and is kept")
        return outcome.exit_code
    trouble = write_failure(failure_file, log.mask(outcome.reason))
    if trouble:
        log.warning(trouble)
    return outcome.exit_code
