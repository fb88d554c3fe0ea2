"""The rules of a job: checked before the worker starts, evaluated by a sidecar while it runs.

Loaded only for jobs that have rules; the others pay for one look at the environment.
"""

from __future__ import annotations

from stoker.bus.rule_status import RuleStatus, close_rules, read_rule_statuses
from stoker.contract.debugger import FINISH_VARIABLE
from stoker.errors import LaunchFailed
from stoker.runtime.helper import make_helper_step
from stoker.runtime.sidecar import Sidecar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.contract.job import Job
    from stoker.runtime.log import Log
    from stoker.runtime.signals import Signals
    from stoker.runtime.step import LaunchStep

FINISH_SECONDS = 60.0
"""What the evaluator gets after the worker's end for the steps it has not evaluated yet."""

_EVALUATOR = "stoker.debugging.evaluate"
_LONGEST_DETAILS = 300  # the whole text is in rules.json


class JobRules:
    """What the launcher does for the rules of one job, from the check to the last line."""

    def __init__(self, job: Job, code_dir: str, log: Log) -> None:
        self._job = job
        self._code_dir = code_dir
        self._log = log
        self._sidecar: Sidecar | None = None
        self._told = ""

    @property
    def is_evaluated(self) -> bool:
        """Whether an evaluator was started here: it is the leader's."""
        return self._sidecar is not None

    def make_check_step(self) -> LaunchStep:
        """Reads and tries the rules; a mistake ends the job before it costs anything."""
        return self._make_evaluator("check rules", self._job.environ, "--prepare")

    def start(self, worker: LaunchStep) -> Sidecar | None:
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
            # What was just set to Stopped is no longer in progress, so this is for the rest.
            why = self._sidecar.trouble or "the evaluator left it undecided"
            close_rules(self._job.paths, "Error", why)
        for rule in read_rule_statuses(self._job.paths) if self._job.is_leader else ():
            self._log.info(f"rules: {rule.name} {rule.status} {_in_words(rule)}")

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

    def _make_evaluator(
        self, name: str, environ: Mapping[str, str], *arguments: str
    ) -> LaunchStep:
        arguments = (*arguments, "--code-dir", self._code_dir)
        return make_helper_step(
            self._job,
            self._log,
            name=name,
            module=_EVALUATOR,
            arguments=arguments,
            code_dir=self._code_dir,
            environ=environ,
        )


def _in_words(rule: RuleStatus) -> str:
    if rule.status == "IssuesFound":
        return f"at step {rule.step}"
    if rule.details:
        return f"({rule.details.strip()[:_LONGEST_DETAILS]})"
    return f"({rule.evaluated_steps} steps evaluated)"
