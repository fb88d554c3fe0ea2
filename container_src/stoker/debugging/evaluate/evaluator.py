"""The loop of the sidecar: look for new steps, evaluate them in order, say what was found."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from stoker.bus.rule_status import write_rule_statuses
from stoker.contract.debugger import findings_file, profiler_dir, rule_output_dir
from stoker.contract.job import Job
from stoker.debugging.actions import ActionRunner, Notice
from stoker.debugging.evaluate.findings_file import FindingsFile
from stoker.debugging.evaluate.profile_watch import AddedRules, ProfileWatch
from stoker.debugging.evaluate.signals import EvaluatorSignals
from stoker.debugging.evaluate.watched import Fired, WatchedRule
from stoker.debugging.tensors import SavedTensors
from stoker.debugging.tensors.saved_tensors import shorten_steps
from stoker.errors import TensorMissing, TensorsUnreadable

LOOK_SECONDS = 0.25
"""Between two looks for new steps; a finding is due two seconds after its step was written."""

PROGRESS_SECONDS = 2.0
"""Between two writes of rules.json that only count steps."""

MANY_STEPS = 20
"""So many steps that wait to be evaluated are worth a line in the log."""

ACTION_SECONDS = 30.0
"""For messages that are still under way when everything is evaluated."""

LAST_ACTION_SECONDS = 2.0
"""The same when the time is over: with the last answers it stays well below the 20 s left."""


class Evaluator:
    """Evaluates one run to its end. One thread; memory for the few steps that are open at once."""

    def __init__(
        self,
        job: Job,
        rules: Sequence[WatchedRule],
        saved: SavedTensors,
        *,
        signals: EvaluatorSignals,
        say: Callable[[str], None],
    ) -> None:
        self._job = job
        self._rules = list(rules)
        self._saved = saved
        self._signals = signals
        self._say = say
        self._actions = ActionRunner(job, say=say)
        self._findings = FindingsFile(findings_file(job.paths))
        self._waiting: deque[int] = deque(saved.steps())
        self._evaluated = -1
        self._late: list[int] = []
        """Steps that were found after a later one had been evaluated."""
        self._steps = 0
        self._last_news = time.monotonic()
        self._written_at = 0.0
        self._profile = ProfileWatch(
            rules,
            folder=profiler_dir(job.paths, job.services.profiler),
            output=rule_output_dir(job.paths),
            say=self._say_once,
        )
        self._added = AddedRules(job)
        self._said: set[str] = set()

    def run(self) -> None:
        """Returns when everything was evaluated, every rule is over, or it must conclude."""
        self._write()
        self._warn_of_errors()
        while not self._is_done():
            self._look()
            if self._waiting:
                self._evaluate_next()
            else:
                self._evaluate_time()
                time.sleep(LOOK_SECONDS)
            self._evaluate_profile()
        self._conclude()

    def _is_time_over(self) -> bool:
        return self._signals.is_over

    def _is_done(self) -> bool:
        if self._is_time_over() or all(rule.is_over for rule in self._rules):
            return True
        return self._saved.has_ended and not self._waiting

    def _look(self) -> None:
        try:
            fresh = self._saved.refresh()
        except MemoryError:
            # A rule that hoards is an Error as soon as it is asked again, and gives it back.
            self._say_once("memory", "there was no memory to look for new steps")
            return
        if fresh:
            self._last_news = time.monotonic()
        for step in fresh:
            if step > self._evaluated and (not self._waiting or step > self._waiting[-1]):
                self._waiting.append(step)
            elif step > self._evaluated:
                self._waiting = deque(sorted({*self._waiting, step}))
            else:
                self._leave_out(step)
        if len(self._waiting) >= MANY_STEPS and not self._saved.has_ended:
            self._say_once(
                "behind",
                f"rules are {len(self._waiting)} saved steps behind, at {self._evaluated} of "
                f"{self._waiting[-1]}: findings come late; save less often, or reductions instead "
                "of tensors",
            )

    def _leave_out(self, step: int) -> None:
        """Rules remember the steps before: they must not see time run backwards."""
        why = f"it came after step {self._evaluated} was evaluated"
        self._late.append(step)
        for rule in self._rules:
            rule.note_unread(step, why)
        self._say_once("late", f"step {step} is not evaluated: {why}")

    def _evaluate_next(self) -> None:
        step = self._waiting.popleft()
        self._evaluated = step
        self._steps += 1
        for fired in evaluate_step(self._rules, self._saved, step, is_over=self._is_time_over):
            self._tell(fired)
            self._write()
        self._warn_of_errors()
        self._write(is_urgent=False)
        self._warn_of_unread()

    def _evaluate_time(self) -> None:
        if self._saved.has_ended:
            return
        seconds = time.monotonic() - self._last_news
        for rule in self._rules:
            if self._is_time_over():
                return
            fired = rule.evaluate_time(seconds, last_step=max(self._evaluated, 0))
            if fired is not None:
                self._tell(fired)
                self._write()
        self._warn_of_errors()

    def _evaluate_profile(self, *, is_last: bool = False) -> None:
        for spec in self._added.look():
            if spec.name not in {rule.status.name for rule in self._rules}:
                self._say(f"rule {spec.name} was added to the job")
                self._rules.append(WatchedRule(spec))
                self._profile.add(self._rules[-1])
                self._write()
        for fired in self._profile.look(step=max(self._evaluated, 0), is_last=is_last):
            self._tell(fired)
            self._write()
        self._warn_of_errors()

    def _tell(self, fired: Fired) -> None:
        finding = fired.finding
        hint = f" ({finding.hint})" if finding.hint else ""
        self._say(f"rule {fired.rule} at step {fired.step}: {finding.message}{hint}")
        trouble = self._findings.append(fired)
        if trouble:
            self._say_once("findings", trouble)
        # Of the watched rule, not of the file: `stop_training_on_fire` has added an action to it.
        spec = next(rule.spec for rule in self._rules if rule.status.name == fired.rule)
        if self._saved.has_ended and any(action.kind == "stop" for action in spec.actions):
            self._say(f"rule {fired.rule} would stop the job, but it has ended already")
            kept = tuple(action for action in spec.actions if action.kind != "stop")
            spec = replace(spec, actions=kept)
        notice = Notice(job=self._job.name, rule=fired.rule, step=fired.step, finding=finding)
        self._actions.start(spec, notice)

    def _conclude(self) -> None:
        self._look()  # told to conclude in the middle of a step, it knows only the steps before
        self._evaluate_profile(is_last=True)
        left = max(map(self._end_rule, self._rules), default=0)
        self._write()
        if left:
            share = self._share(left)
            since = f", from step {self._waiting[0]} on" if self._waiting else ""
            self._say(
                f"warning: {share} were not evaluated by the rules{since}: the time was over"
            )
        if self._late:
            self._say(
                f"warning: {len(self._late)} saved steps came too late to be evaluated: "
                f"{shorten_steps(self._late)}"
            )
        if self._saved.damaged:
            file, why = next(iter(self._saved.damaged.items()))
            count = len(self._saved.damaged)
            self._say(f"warning: {count} index files cannot be read, such as {file}: {why}")
        limit_seconds = LAST_ACTION_SECONDS if self._signals.is_over else ACTION_SECONDS
        self._actions.close(limit_seconds=limit_seconds)

    def _end_rule(self, rule: WatchedRule) -> int:
        """Returns how many steps it was not asked about because the time was over."""
        if rule.is_over:
            return 0
        # The step at which the time was over counts for the rules that were not asked any more.
        left = len(self._waiting) + (rule.last_step < self._evaluated)
        if rule.scan_seconds is not None:
            left = 0  # it has looked at everything a moment ago
        if self._signals.is_job_stopped:
            rule.stop("the training job was stopped")
        elif left:
            rule.stop(f"{self._share(left)} were not evaluated: the time was over")
        elif trouble := rule.finish(names=self._names(), steps=self._steps):
            self._say(f"warning: {trouble}")
        return left

    def _share(self, steps: int) -> str:
        return f"{steps} of {self._steps + len(self._waiting)} saved steps"

    def _names(self) -> list[str]:
        try:
            return self._saved.names()
        except MemoryError:
            return []

    def _warn_of_errors(self) -> None:
        """Users rely on each rule: the error of one must not be reported only at the end."""
        statuses = [rule.status for rule in self._rules if rule.status.status == "Error"]
        for status in statuses:
            topic = f"error {status.name}"
            if topic not in self._said:
                self._say_once(
                    topic, f"rule {status.name} is no longer evaluated: {status.details}"
                )
                self._write()

    def _warn_of_unread(self) -> None:
        unread = next((rule.unread for rule in self._rules if rule.unread), "")
        if unread:
            self._say_once("unread", unread)

    def _write(self, *, is_urgent: bool = True) -> None:
        now = time.monotonic()
        if not is_urgent and now - self._written_at < PROGRESS_SECONDS:
            return
        self._written_at = now
        try:
            write_rule_statuses(self._job.paths, [rule.status for rule in self._rules])
        except OSError as error:
            self._say_once("statuses", f"rules.json cannot be written: {error.strerror}")

    def _say_once(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            self._say(f"warning: {text}")


def evaluate_step(
    rules: Sequence[WatchedRule],
    saved: SavedTensors,
    step: int,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[Fired]:
    """Asks all rules about one step; one that cannot be read is noted with each of them.

    Yields each finding before the next rule is asked, which may take its time.

    Args:
        rules: those that are over are passed over.
        saved: the run.
        step: one that was saved.
        is_over: whether there is no time for further rules.
    """
    try:
        tensors = saved.at(step)
    except (TensorMissing, TensorsUnreadable, OSError, MemoryError) as error:
        for rule in rules:
            rule.note_unread(step, error)
        return
    for rule in rules:
        if is_over():
            return
        fired = rule.evaluate(tensors)
        if fired is not None:
            yield fired
