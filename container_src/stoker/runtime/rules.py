"""The rules of a job: checked before the worker starts, evaluated by a sidecar while it runs.

Loaded only for jobs that have rules; the others pay for one look at the environment.
"""

from __future__ import annotations

import os
import sys
import time

from stoker.bus.crash import FOLDER_VARIABLE
from stoker.bus.rule_status import RuleStatus, close_rules, read_rule_statuses
from stoker.contract.debugger import FINISH_VARIABLE
from stoker.contract.outcome import make_readable
from stoker.contract.paths import ROOT_VARIABLE
from stoker.errors import LaunchFailed
from stoker.runtime.sidecar import Sidecar
from stoker.runtime.step import WORKER_VARIABLE, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.contract.job import Job
    from stoker.contract.outcome import Outcome
    from stoker.runtime.log import Log
    from stoker.runtime.signals import Signals

FINISH_SECONDS = 60.0
"""What the evaluator gets after the worker's end for the steps it has not evaluated yet."""

REPORT_SECONDS = 60.0
"""For the page at the end."""

_LATEST_SECONDS = 90.0
"""So long after a stop of the platform nothing is begun any more that can be done without."""

_EVALUATOR, _REPORTER = "stoker.debugging.evaluate", "stoker.debugging.report"
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# One thread, whatever a rule calls, and never a GPU: they are the training's.
_MODEST = {
    "CUDA_VISIBLE_DEVICES": "",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_LONGEST_DETAILS = 300
_LONGEST_OUTCOME = 2000


class JobRules:
    """What the launcher does for the rules of one job, from the check to the last line."""

    def __init__(self, job: Job, code_dir: str, log: Log) -> None:
        self._job = job
        self._code_dir = code_dir
        self._log = log
        self._sidecar: Sidecar | None = None
        self._told = ""

    def make_check_step(self) -> Step:
        """Reads and tries the rules; a mistake ends the job before it costs anything."""
        return self._make_evaluator("check rules", self._job.environ, "--prepare")

    def start(self, worker: Step) -> Sidecar | None:
        """Starts the evaluator, on the leader; None elsewhere, or if it cannot be started."""
        if not self._job.is_leader:
            return None
        try:
            step = self._make_evaluator("the evaluator of rules", worker.environ)
            self._sidecar = Sidecar(step, self._job.paths, tell=self._give_up)
        except LaunchFailed as error:
            self._give_up(f"the rules are not evaluated: {error}")
        return self._sidecar

    def tell_stopped(self) -> None:
        """The job was stopped from outside, and so are its rules."""
        if self._sidecar is not None:
            self._sidecar.tell_stopped()

    def finish(self, signals: Signals) -> None:
        """Waits until the sidecar has evaluated the rest, and logs how each rule ended."""
        if self._sidecar is not None:
            limit_seconds = self._finish_seconds()
            self._sidecar.finish(signals, limit_seconds=limit_seconds)
            if self._sidecar.trouble not in ("", self._told):
                self._log.warning(self._sidecar.trouble)
            if self._sidecar.is_told_stopped and not self._sidecar.trouble:
                close_rules(self._job.paths, "Stopped", "the training job was stopped")
            why = self._sidecar.trouble or "the evaluator left it undecided"
            close_rules(self._job.paths, "Error", why)
        for rule in read_rule_statuses(self._job.paths) if self._job.is_leader else ():
            self._log.info(f"rules: {rule.name} {rule.status} {_in_words(rule)}")

    def write_report(self, outcome: Outcome, signals: Signals) -> None:
        """Has the page of the run made; without it the job ends just the same."""
        is_late = time.monotonic() - signals.stopped_at > _LATEST_SECONDS
        if self._sidecar is None or (signals.stop_signal is not None and is_late):
            return
        said = make_readable(self._log.mask(f"{outcome.kind} {outcome.reason}".rstrip()))
        arguments = ("--outcome", said[:_LONGEST_OUTCOME])
        try:
            step = self._make_step("the report", self._job.environ, _REPORTER, arguments)
            reporter = Sidecar(step, self._job.paths)
        except LaunchFailed as error:
            self._log.warning(f"there is no report: {error}")
            return
        reporter.finish(signals, limit_seconds=REPORT_SECONDS)
        if reporter.trouble:
            self._log.warning(reporter.trouble)

    def _give_up(self, why: str) -> None:
        """No process evaluates the rules any more: reported now, as the job may run for hours."""
        self._told = why
        self._log.warning(why)
        close_rules(self._job.paths, "Error", why)

    def _finish_seconds(self) -> float:
        text = self._job.environ.get(FINISH_VARIABLE, "")
        if text.isascii() and text.isdigit():
            return float(text)
        if text:
            self._log.warning(f"{FINISH_VARIABLE} is {text!r:.80}: use whole seconds")
        return FINISH_SECONDS

    def _make_evaluator(self, name: str, environ: Mapping[str, str], *arguments: str) -> Step:
        arguments = (*arguments, "--code-dir", self._code_dir)
        return self._make_step(name, environ, _EVALUATOR, arguments)

    def _make_step(
        self, name: str, environ: Mapping[str, str], module: str, arguments: tuple[str, ...]
    ) -> Step:
        is_there = os.path.isdir(self._code_dir)
        return Step(
            name=name,
            # -P: a smtplib.py of the user's must not take the place of Python's own.
            argv=(sys.executable, "-P", "-m", module, *arguments),
            environ=self._environ(environ),
            folder=self._code_dir if is_there else "/",
            mask=self._log.mask,
        )

    def _environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        # No worker: no hook is to be attached, and its crash is not the job's.
        kept = {k: v for k, v in environ.items() if k not in (WORKER_VARIABLE, FOLDER_VARIABLE)}
        path = self._job.environ.get("PYTHONPATH")  # without the folder of the code, as above
        kept["PYTHONPATH"] = f"{path}:{_PACKAGES}" if path else _PACKAGES
        kept.setdefault("SMDEBUG_LOG_LEVEL", "error")  # of rules of its kind; it is talkative
        return {**kept, ROOT_VARIABLE: self._job.paths.root, **_MODEST}


def _in_words(rule: RuleStatus) -> str:
    if rule.status == "IssuesFound":
        return f"at step {rule.step}"
    if rule.details:
        return f"({rule.details.strip()[:_LONGEST_DETAILS]})"
    return f"({rule.evaluated_steps} steps evaluated)"
