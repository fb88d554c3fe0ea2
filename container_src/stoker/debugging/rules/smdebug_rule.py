"""smdebug's own kind of rule (`invoke_at_step`), run by our evaluator."""

from __future__ import annotations

import functools
import inspect
import json
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from smdebug.analysis.utils import refresh
from smdebug.core.modes import ModeKeys
from smdebug.core.tensor import StepState
from smdebug.exceptions import (
    NoMoreData,
    NoMoreProfilerData,
    RuleEvaluationConditionMet,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from smdebug.rules.rule import Rule as SmdebugBase
from smdebug.trials import create_trial

from stoker.contract.files import read_regular
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Parameter, Rule
from stoker.debugging.step_tensors import StepTensors
from stoker.debugging.tensors.event_files import FIX
from stoker.debugging.tensors.layout import INDEX_LIMIT_BYTES, NOT_WHOLE
from stoker.errors import RuleInvalid, TensorsUnreadable

# `invoke_rule` continues after these, too, except that it ends at NoMoreData. StepNotYetAvailable
# comes from other runs that are still behind this one.
_NOT_THERE = (
    NoMoreData,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
_GIVEN = ("self", "base_trial", "action_str", "other_trials")
"""Arguments of the constructor that are not parameters of the rule."""


def adapt_smdebug_rule(rule_class: type) -> type[SmdebugRule]:
    """A class that makes and runs rules of a class of the user's."""
    members = {
        "rule_class": rule_class,
        "parameters": {p.name: _parameter(p) for p in _own_arguments(rule_class)},
        "__doc__": inspect.getdoc(rule_class),
    }
    return type(rule_class.__name__, (SmdebugRule,), members)


class SmdebugRule(Rule):
    """Runs one rule of smdebug's kind over the steps, as smdebug's `invoke_rule` does.

    The constructor may have either form: `super().__init__(base_trial)`, as documented, or
    `super().__init__(base_trial, action_str)`, as smdebug 1.0.34 wants it. Actions are ours.
    """

    rule_class: ClassVar[type]

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Takes parameters as texts; the rule converts them itself, as in the service.

        Raises:
            RuleInvalid: its constructor does not take one of them, or wants another.
        """
        self._settings = dict(settings or {})
        self._other_folders = _folders(self._settings.pop("other_trials", ""))
        self._rule: Any = None
        self._has_ended = False
        self._has_evaluated = False
        self._missing = ""
        _check_arguments(self.rule_class, self._settings, has_others=bool(self._other_folders))

    def needs(self) -> Sequence[Need]:
        """Nothing: such a rule does not say. The hook's configuration names what to save."""
        return []

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        """Invokes it at the step.

        Raises:
            TensorsUnreadable: smdebug cannot read a file of it.
            Exception: whatever the rule itself raises, except that a tensor is not there.
        """
        if self._has_ended:
            return None
        if self._rule is None:
            self._rule = self._make(str(tensors.folder))
        if self._rule is None:
            return None
        try:
            self._rule.invoke(step)
            self._has_evaluated = True
        except _NOT_THERE as error:
            self._missing = str(error)
        except NoMoreProfilerData:
            self._has_ended = True
        except OSError as error:
            if not _is_by_smdebug(error):
                raise  # of the rule's own making
            raise TensorsUnreadable(f"smdebug cannot read the step: {error}", fix=FIX) from error
        except RuleEvaluationConditionMet as met:
            # In smdebug a rule may fire again unless it says so; WatchedRule ends it at the first
            # time.
            self._has_ended = met.end_of_rule
            return Finding(message=str(met))
        return None

    def lacks(self) -> str:
        """What was not there, if that kept it from evaluating any step."""
        return "" if self._has_evaluated else self._missing

    def _make(self, folder: str) -> Any:  # noqa: ANN401 - smdebug has no types
        """The rule itself; None while a run is not far enough to be read."""
        folders = [folder, *self._other_folders]
        unreadable = [place for place in folders if not _is_readable(place)]
        if unreadable:
            self._missing = f"not each worker has written its collections in {unreadable[0]}"
            return None
        _accept_both_constructors()
        base_trial, *other_trials = map(_open_trial, folders)
        arguments: dict[str, Any] = dict(self._settings)
        takes = inspect.signature(self.rule_class).parameters
        if "action_str" in takes:
            # Actions are our evaluator's: an action of smdebug's would be carried out twice.
            arguments["action_str"] = ""
        if other_trials:
            arguments["other_trials"] = other_trials
        return self.rule_class(base_trial, **arguments)


def _open_trial(folder: str) -> Any:  # noqa: ANN401 - smdebug has no types
    trial = create_trial(folder)
    # smdebug's own would wait, for ever if need be, and all other rules with it.
    trial.wait_for_steps = functools.partial(_require_steps, trial)
    return trial


def _require_steps(
    trial: Any,  # noqa: ANN401 - smdebug has no types
    required_steps: Sequence[int],
    mode: Any = ModeKeys.GLOBAL,  # noqa: ANN401 - as above
) -> None:
    with refresh(trial):
        for step in required_steps:
            if trial.has_passed_step(step, mode) is not StepState.AVAILABLE:
                raise StepUnavailable(step, mode)


def _is_readable(folder: str) -> bool:
    """Whether all workers have written their collections; smdebug waits for them without end."""
    files = sorted(Path(folder).glob("collections/*/*_collections.json"))
    if not files:
        return False
    try:
        collections = json.loads(read_regular(str(files[0]), INDEX_LIMIT_BYTES))
        workers = int(collections["_meta"]["num_workers"])
    except (OSError, *NOT_WHOLE):
        return False  # half copied: it will be replaced by the whole
    return len(files) >= workers


def _is_by_smdebug(error: OSError) -> bool:
    """Whether smdebug's own code was reading, not the rule's."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")).startswith("smdebug.")


def _accept_both_constructors() -> None:
    """The documented form does not pass `action_str`, which upstream declares without default."""
    if inspect.signature(SmdebugBase).parameters["action_str"].default is inspect.Parameter.empty:
        SmdebugBase.__init__.__defaults__ = ("", None)


def _own_arguments(rule_class: type) -> list[inspect.Parameter]:
    arguments = list(inspect.signature(rule_class).parameters.values())[1:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [a for a in arguments if a.kind in named and a.name not in _GIVEN]


def _parameter(argument: inspect.Parameter) -> Parameter:
    is_required = argument.default is inspect.Parameter.empty
    return Parameter(
        name=argument.name,
        kind=str,
        default=None if is_required else argument.default,
        help="of the constructor; must be set" if is_required else "of the constructor",
    )


def _check_arguments(rule_class: type, settings: Mapping[str, str], *, has_others: bool) -> None:
    takes = inspect.signature(rule_class).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in takes.values())
    given = [*settings, *(["other_trials"] if has_others else [])]
    unknown = [name for name in given if name not in takes and not takes_all]
    own = _own_arguments(rule_class)
    missing = [
        a.name for a in own if a.default is inspect.Parameter.empty and a.name not in settings
    ]
    if unknown or missing:
        problems = [f"takes no {name}" for name in unknown] + [f"wants {n}" for n in missing]
        raise RuleInvalid(
            f"the constructor of {rule_class.__name__} {' and '.join(problems)}",
            fix=f"its parameters are: {', '.join(a.name for a in own) or 'none'}",
        )


def _folders(text: str) -> list[str]:
    return [folder.strip() for folder in text.split(",") if folder.strip()]
