"""Around every way into the container: whatever happens, a truthful exit code."""

from __future__ import annotations

import os

from stoker.bus.rule_plan import forget_rule_plan
from stoker.bus.stop import forget_stop
from stoker.contract.files import remove_file
from stoker.contract.outcome import Outcome
from stoker.contract.paths import read_paths
from stoker.errors import StokerError
from stoker.runtime.report import outcome_of_error, report, stopped_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.runtime.log import Log
    from stoker.runtime.signals import Signals

_OUR_FAULT = 70  # EX_SOFTWARE of sysexits.h
_RESERVED_BYTES = 64 << 10


class Stopped(Exception):
    """A stop signal came before the user's program was started."""


def run_guarded(run: Callable[[], Outcome], *, signals: Signals, log: Log) -> int:
    """Runs a job and reports it; the exit code is never 0 after a failure."""
    paths = read_paths()
    for name in (paths.failure_file, paths.success_file):
        remove_file(name)  # of an attempt before this one
    forget_stop(paths)
    forget_rule_plan(paths)
    reserve = _reserve_space(os.path.dirname(paths.failure_file))
    try:
        outcome = run()
    except Stopped:
        outcome = stopped_early(signals.stop_signal or 15)
    except StokerError as error:
        outcome = outcome_of_error(error)
    except Exception:  # the last resort: truthful, whatever it was
        outcome = _internal_error()
    if reserve is not None:
        # Only now: the space is for the file that `report` writes.
        os.close(reserve)
    return report(
        outcome, failure_file=paths.failure_file, success_file=paths.success_file, log=log
    )


def _reserve_space(folder: str) -> int | None:
    """Space for the failure file, held by a file without a name: the job may fill the disk."""
    try:
        reserve = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC)
        os.posix_fallocate(reserve, 0, _RESERVED_BYTES)
    except OSError:  # not every file system can; the exit code alone makes the job fail
        return None
    return reserve


def _internal_error() -> Outcome:
    # Imported here: only a launcher that has failed itself needs it.
    import traceback

    return Outcome(
        kind="failed",
        exit_code=_OUR_FAULT,
        reason=f"internal error of Stoker:\n{traceback.format_exc()[-800:]}",
    )
