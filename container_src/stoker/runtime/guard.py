"""Around every way into the container: whatever happens, a truthful exit code."""

from __future__ import annotations

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

_OUR_FAULT = 70


class Stopped(Exception):
    """A stop signal came before the user's program was started."""


def run_guarded(run: Callable[[], Outcome], *, signals: Signals, log: Log) -> int:
    """Runs a job and reports it; the exit code is never 0 after a failure."""
    paths = read_paths()
    for name in (paths.failure_file, f"{paths.output_dir}/success"):
        remove_file(name)  # of an attempt before this one
    forget_stop(paths)
    try:
        outcome = run()
    except Stopped:
        outcome = stopped_early(signals.stop_signal or 15)
    except StokerError as error:
        outcome = outcome_of_error(error)
    except Exception:  # the last resort: truthful, whatever it was
        outcome = _internal_error()
    return report(outcome, failure_file=paths.failure_file, log=log)


def _internal_error() -> Outcome:
    # Imported here: only a launcher that has failed itself needs it.
    import traceback

    return Outcome(
        kind="failed",
        exit_code=_OUR_FAULT,
        reason=f"Stoker itself failed, which is a bug of ours:\n{traceback.format_exc()[-800:]}",
    )
