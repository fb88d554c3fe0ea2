"""Stoker's own programs in the container that need NumPy: evaluator and pages, as processes."""

from __future__ import annotations

import importlib.util
import os
import sys
import time

from stoker.bus.crash import FOLDER_VARIABLE
from stoker.contract.outcome import make_readable
from stoker.contract.paths import ROOT_VARIABLE
from stoker.errors import LaunchFailed
from stoker.runtime.sidecar import Sidecar
from stoker.runtime.step import WORKER_VARIABLE, LaunchStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.contract.job import Job
    from stoker.contract.outcome import Outcome
    from stoker.runtime.log import Log
    from stoker.runtime.signals import Signals

RULES_PAGE, PROFILE_PAGE = "stoker.debugging.report", "stoker.report"

PAGE_SECONDS = 60.0
"""For each page at the end."""

_LATEST_SECONDS = 90.0
"""So long after a stop of the platform nothing is begun any more that can be done without."""

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# One thread, whatever a rule calls, and never a GPU: they are the training's.
_MODEST = {
    "CUDA_VISIBLE_DEVICES": "",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_LONGEST_OUTCOME = 2000


def write_page(
    module: str, job: Job, outcome: Outcome, *, code_dir: str, signals: Signals, log: Log
) -> None:
    """Has a page of the run made; without it the job ends just the same.

    Args:
        module: RULES_PAGE or PROFILE_PAGE.
        job: the job.
        outcome: how it ended.
        code_dir: its source directory.
        signals: a stop shortens the time for it.
        log: of the job.
    """
    is_late = time.monotonic() - signals.stopped_at > _LATEST_SECONDS
    if signals.stop_signal is not None and is_late:
        return
    # Found, not imported: the launcher itself loads only the standard library.
    if importlib.util.find_spec("numpy") is None:  # an image of the user's own
        log.warning("there is no report: NumPy is not in this image; fix: pip install numpy")
        return
    said = make_readable(log.mask(f"{outcome.kind} {outcome.reason}".rstrip()))
    try:
        step = make_helper_step(
            job,
            log,
            name="the report",
            module=module,
            arguments=("--outcome", said[:_LONGEST_OUTCOME]),
            code_dir=code_dir,
            environ=job.environ,
        )
        helper = Sidecar(step, job.paths)
    except LaunchFailed as error:
        log.warning(f"there is no report: {error}")
        return
    helper.finish(signals, limit_seconds=PAGE_SECONDS)
    if helper.trouble:
        log.warning(helper.trouble)


def make_helper_step(
    job: Job,
    log: Log,
    *,
    name: str,
    module: str,
    arguments: tuple[str, ...],
    code_dir: str,
    environ: Mapping[str, str],
) -> LaunchStep:
    """A program of Stoker: no module of the user's replaces Python's own in it."""
    # No worker: no hook is to be attached, and its crash is not the job's.
    kept = {k: v for k, v in environ.items() if k not in (WORKER_VARIABLE, FOLDER_VARIABLE)}
    path = job.environ.get("PYTHONPATH")  # without the folder of the code, see -P
    kept["PYTHONPATH"] = f"{path}:{_PACKAGES}" if path else _PACKAGES
    kept.setdefault("SMDEBUG_LOG_LEVEL", "error")  # of rules of its kind; it is talkative
    return LaunchStep(
        name=name,
        # -P: a smtplib.py of the user's must not take the place of Python's own.
        argv=(sys.executable, "-P", "-m", module, *arguments),
        environ={**kept, ROOT_VARIABLE: job.paths.root, **_MODEST},
        folder=code_dir if os.path.isdir(code_dir) else "/",
        mask=log.mask,
    )
