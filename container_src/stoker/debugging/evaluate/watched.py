"""One rule at work: what it has seen, what it found, and its status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.bus.rule_status import RuleStatus
from stoker.debugging.need import Need, check_needs
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, Rule
from stoker.debugging.rule_faults import RULE_FAULTS, describe_fault, time_limit
from stoker.debugging.specs import Action, RuleSpec, make_rule
from stoker.debugging.step_tensors import Mode, StepTensors
from stoker.errors import RuleInvalid, TensorMissing, TensorsUnreadable

if TYPE_CHECKING:
    from stoker.bus.rule_status import Status

_MOST_NAMES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired:
    """A rule's condition was met."""

    rule: str
    step: int
    mode: Mode = "GLOBAL"
    mode_step: int = 0
    finding: Finding


class WatchedRule:
    """Asks a rule about each step until it fires, fails, or the run ends.

    As in the service, a rule ends at its first firing: its status names one step.
    """

    def __init__(
        self,
        spec: RuleSpec,
        *,
        code_dir: Path | None = None,
        longest_seconds: float | Callable[[], float] | None = None,
    ) -> None:
        """Never raises: a rule that cannot be made is an Error from the start.

        Args:
            spec: which rule.
            code_dir: where classes of the user's are.
            longest_seconds: what each answer of it may take, in the main thread, or what tells it
                by the time; None: no limit.
        """
        self.spec = spec
        self.status = RuleStatus(
            name=spec.name, rule=spec.rule, status="InProgress", modified=time.time()
        )
        self.unread_steps = 0
        """How many steps it could not look at."""
        self.unread = ""
        """The first of them, and why."""
        self.last_step = -1
        """The newest step that it was asked about."""
        self.profiler_reports: Mapping[str, Mapping[str, Any]] = {}
        """Of a rule of the profiler: rule → what it has seen, as the service writes it."""
        self._rule: Rule | None = None
        self._needs: Sequence[Need] = ()
        self._met: set[Need] = set()
        self._last_missing = ""
        self._longest_seconds = longest_seconds
        try:
            with time_limit(longest_seconds):
                self._rule = make_rule(spec, code_dir=code_dir)
                self._needs = check_needs(self._rule.needs())
        except RuleInvalid as error:
            self._end("Error", str(error))
        except RULE_FAULTS as error:  # of a user's own rule
            self._end("Error", describe_fault(error))
        # A parameter of the service's rules: the service's own way to ask for the action.
        if getattr(self._rule, "stop_training_on_fire", False):
            self.spec = replace(spec, actions=(*spec.actions, Action(kind="stop")))

    @property
    def scan_seconds(self) -> float | None:
        """How often it wants to see the profile; None if it is not about that."""
        rule = self._rule
        return rule.scan_interval_us / 1e6 if isinstance(rule, ProfilerRule) else None

    @property
    def is_over(self) -> bool:
        return self.status.status != "InProgress"

    def evaluate(self, tensors: StepTensors) -> Fired | None:
        """Asks about one step."""
        if self._rule is None or self.is_over:
            return None
        # Before the rule is asked: a step at which it fails was evaluated, too.
        self.last_step = tensors.step
        try:
            with time_limit(self._longest_seconds):
                if not self._sees_any(tensors):
                    return None
                finding = _checked(self._rule.check(tensors.step, tensors))
        except TensorMissing as error:
            self._last_missing = str(error)
            return None
        except TensorsUnreadable as error:  # damaged, or gone meanwhile
            self.note_unread(tensors.step, error)
            return None
        except RULE_FAULTS as error:  # the rule's own fault; the others continue
            self._end("Error", f"at step {tensors.step}: {describe_fault(error)}")
            return None
        self.status = self.status.replace(evaluated_steps=self.status.evaluated_steps + 1)
        return self._note(finding, tensors.step, tensors.mode, tensors.mode_step)

    def note_unread(self, step: int, reason: Exception | str) -> None:
        """A step is there, but cannot be read, or came too late."""
        if not self.is_over:
            self.last_step = max(self.last_step, step)
            self.unread_steps += 1
            reason = str(reason) or type(reason).__name__
            self.unread = self.unread or f"step {step} cannot be evaluated: {reason}"

    def evaluate_time(self, seconds_since_last_step: float, *, last_step: int) -> Fired | None:
        """Asks whether too much time has passed."""
        if self._rule is None or self.is_over:
            return None
        try:
            with time_limit(self._longest_seconds):
                finding = _checked(self._rule.check_time(seconds_since_last_step))
        except RULE_FAULTS as error:  # as above
            self._end("Error", describe_fault(error))
            return None
        return self._note(finding, last_step, "GLOBAL", last_step)

    def evaluate_profile(self, profile: Profile, *, step: int, is_last: bool) -> Fired | None:
        """Has a rule of the profiler look at what was measured so far."""
        rule = self._rule
        if not isinstance(rule, ProfilerRule) or self.is_over:
            return None
        try:
            with time_limit(self._longest_seconds):
                finding = _checked(rule.scan(profile, is_last=is_last))
                self.profiler_reports = rule.reports()
        except RULE_FAULTS as error:  # as above
            self._end("Error", describe_fault(error))
            return None
        self.status = self.status.replace(evaluated_steps=rule.datapoints)
        return self._note(finding, step, "GLOBAL", step)

    def finish(self, *, names: Sequence[str], steps: int) -> str:
        """The run has ended and all of it was seen.

        Args:
            names: of all tensors that were saved.
            steps: how many steps were.

        Returns:
            A message for the user; empty if all is well.
        """
        if self._rule is None or self.is_over:
            return ""
        if isinstance(self._rule, ProfilerRule):
            lacking = self._rule.lacking
            self._end("NoIssuesFound", lacking)
            return f"rule {self.status.name} {lacking}" if lacking else ""
        try:
            with time_limit(self._longest_seconds):
                lacking = self._lacks(self._rule, names, steps)
                least = self._rule.least_steps()
        except RULE_FAULTS as error:  # as above
            lacking, least = describe_fault(error), 0
        if lacking:
            self._end("Error", lacking)
            return f"rule {self.status.name}: {self.status.details}"
        warning = "; ".join(filter(None, (self._too_few_steps(least), self._some_unread())))
        self._end("NoIssuesFound", warning)
        return f"rule {self.status.name} {warning}" if warning else ""

    def stop(self, details: str) -> None:
        """The run, or the evaluation of it, was ended from outside."""
        if not self.is_over:
            self._end("Stopped", details)

    def _sees_any(self, tensors: StepTensors) -> bool:
        """Whether the step has anything for this rule; notes which needs were met."""
        if not self._needs:
            return True
        found = [need for need in self._needs if tensors.needed(need)]
        self._met.update(found)
        return bool(found)

    def _note(
        self, finding: Finding | None, step: int, mode: Mode, mode_step: int
    ) -> Fired | None:
        if finding is None:
            return None
        name = self.status.name
        self.status = self.status.replace(step=step, findings=self.status.findings + 1)
        self._end(
            "IssuesFound",
            # Word by word as the service says it.
            f"RuleEvaluationConditionMet: Evaluation of the rule {name} at step {step} resulted "
            "in the condition being met\n",
        )
        return Fired(rule=name, step=step, mode=mode, mode_step=mode_step, finding=finding)

    def _lacks(self, rule: Rule, names: Sequence[str], steps: int) -> str:
        """Why it could not evaluate anything of the run; empty if it could."""
        if self.unread and not self.status.evaluated_steps:
            return f"none of {self.unread_steps} steps can be read: {self.unread}"
        never = [need for need in self._needs if need not in self._met and not need.is_optional]
        if never:
            return _never_found(never, names, steps)
        if self._last_missing and not self.status.evaluated_steps:
            return self._last_missing
        return rule.lacks()

    def _some_unread(self) -> str:
        if not self.unread:
            return ""
        steps = self.unread_steps + self.status.evaluated_steps
        return (
            f"did not see {self.unread_steps} of {steps} steps, which cannot be read or came late"
        )

    def _too_few_steps(self, least: int) -> str:
        seen = self.status.evaluated_steps
        if seen >= least:
            return ""
        quick = "" if self.spec.preset else 'preset="quick" for this rule, or '
        return (
            f"evaluated {seen} steps, needs {least} to ever fire; save more often: {quick}"
            "save_interval in the hook's configuration (STOKER_DEBUG=every=N)"
        )

    def _end(self, status: Status, details: str) -> None:
        self.status = self.status.with_status(status, details)
        self._rule = None  # what it remembers may be much, and the other rules continue


def _checked(finding: object) -> Finding | None:
    """What a rule returned: of a user's own it may be anything.

    Raises:
        TypeError, ValueError: it is not a finding.
    """
    if finding is None or finding is False:
        return None
    if not isinstance(finding, Finding):
        raise TypeError(f"it returned {finding!r:.80}, but a Finding or None is expected")
    numbers = {str(name): float(number) for name, number in finding.values.items()}
    return replace(
        finding,
        # findings.jsonl and the log have one line for each.
        message=" ".join(str(finding.message).split()),
        # A tensor itself instead of its name, as a user's own rule may say it.
        tensor=str(getattr(finding.tensor, "name", finding.tensor) or ""),
        values=numbers,
        hint=str(finding.hint or ""),
    )


def _never_found(needs: Sequence[Need], names: Sequence[str], steps: int) -> str:
    wanted = "; ".join(_describe(need) for need in needs)
    if not steps:
        return (
            f"no tensors were saved at all, but it needs {wanted}; was the model built from "
            "torch.nn (of TensorFlow nothing is saved), and did it train a step?"
        )
    shown = ", ".join(names[:_MOST_NAMES]) or "none"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"it never found {wanted}; in {steps} steps there were: {shown}{more}"


def _describe(need: Need) -> str:
    if need.regex:
        return f"tensors named like {need.regex!r}"
    if need.module_classes:
        return f"{need.side}s of {' or '.join(need.module_classes)}"
    if need.of_model:
        return f"{need.side}s of the model"
    if need.of_loss:
        return f"{need.side}s of a loss"
    return f"tensors of the collection {need.collection!r}"
