"""From a spec to the rule itself and the tensors it needs; `preset="quick"`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stoker.debugging.need import Need, check_needs
from stoker.debugging.profiler_rules import PROFILER_CATALOGUE
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Rule
from stoker.debugging.rule_faults import RULE_FAULTS, describe_fault, time_limit
from stoker.debugging.specs.spec import RuleSpec
from stoker.errors import RuleInvalid, StokerError

_FIX = "fix that line; `stoker rules explain my_rules.py:Mine` tries the rule without a job"

OTHER_TRIALS = "other_trials"
"""The parameter of a rule that gets the other runs, separated by commas."""


def make_rule(spec: RuleSpec, *, code_dir: Path | None = None) -> Rule:
    """The rule of a spec, with its parameters.

    Args:
        spec: which, and how.
        code_dir: the source directory, where classes of the user's are looked for.

    Raises:
        RuleInvalid: there is no such rule, or it refuses its parameters; names the rule.
    """
    if spec.fault:
        message, _, fix = spec.fault.partition("\n  fix: ")
        raise RuleInvalid(_named(spec, message), fix=fix)
    try:
        cls = _find_class(spec, code_dir)
        return cls(_parameters(spec, cls))
    except StokerError as error:
        raise RuleInvalid(_named(spec, error.message), fix=error.fix) from error
    except RULE_FAULTS as error:  # in the class of a user's own
        raise RuleInvalid(_named(spec, describe_fault(error)), fix=_FIX) from error


def make_needs(specs: Sequence[RuleSpec], *, code_dir: Path | None = None) -> list[Need]:
    """What the hook has to save for these rules; rules that cannot be made need nothing."""
    needs: dict[Need, None] = {}
    for spec in specs:
        if spec.needs is not None:
            needs |= dict.fromkeys(spec.needs)
            continue
        try:
            needs |= dict.fromkeys(_needs_of(spec, make_rule(spec, code_dir=code_dir)))
        except RuleInvalid:
            continue  # the evaluator reports it as the rule's own Error
    return list(needs)


def describe_needs(
    specs: Sequence[RuleSpec],
    *,
    code_dir: Path | None = None,
    longest_seconds: float | None = None,
) -> list[RuleSpec]:
    """The same specs with their needs written down, and the faults of those that cannot be made.

    After that the hook needs no rule: no class of a rule, least of all a user's, is loaded into
    the process that trains.

    Args:
        specs: the rules.
        code_dir: where classes of the user's are.
        longest_seconds: for each of them; the user's code may wait for something.
    """
    described = []
    for spec in specs:
        try:
            with time_limit(longest_seconds):
                needs = _needs_of(spec, make_rule(spec, code_dir=code_dir))
            described.append(replace(spec, needs=tuple(needs)))
        except RuleInvalid as error:
            described.append(replace(spec, needs=(), fault=spec.fault or str(error)))
    return described


def check_specs(specs: Sequence[RuleSpec]) -> None:
    """Refuses a job with rules in Stoker's forms that cannot be made; all mistakes at once.

    A fault in the service's JSON does not count: there it is the status of that one rule.

    Raises:
        RuleInvalid: before anything is started that costs money.
    """
    faulty = [spec for spec in specs if spec.fault and not spec.is_from_service]
    if not faulty:
        return
    texts = [spec.fault.partition("\n  fix: ") for spec in faulty]
    message = "; ".join(_named(spec, t[0]) for spec, t in zip(faulty, texts, strict=True))
    raise RuleInvalid(message, fix="; ".join(dict.fromkeys(t[2] for t in texts if t[2])))


def _find_class(spec: RuleSpec, code_dir: Path | None) -> type[Rule]:
    # Here, not above: code that only reads specs need not have NumPy.
    from stoker.debugging.rules import CATALOGUE

    if not spec.source:
        for catalogue in (CATALOGUE, PROFILER_CATALOGUE):
            if spec.rule in catalogue:
                return catalogue[spec.rule]
    if spec.source or ":" in spec.rule:
        from stoker.debugging.rules.loading import load_rule

        return load_rule(spec.rule, folder=Path(spec.source) if spec.source else code_dir)
    raise _unknown(spec.rule, {**dict.fromkeys(CATALOGUE), **dict.fromkeys(PROFILER_CATALOGUE)})


def _parameters(spec: RuleSpec, cls: type[Rule]) -> dict[str, str]:
    parameters = dict(spec.parameters)
    if spec.other_trials:
        parameters[OTHER_TRIALS] = ",".join(spec.other_trials)
    if not spec.preset:
        return parameters
    if issubclass(cls, ProfilerRule):
        return cls.quicken(parameters)
    return quicken_parameters(spec.rule, parameters)


def _needs_of(spec: RuleSpec, rule: Rule) -> Sequence[Need]:
    try:
        needs = check_needs(rule.needs())
    except RuleInvalid as error:
        raise RuleInvalid(_named(spec, error.message), fix=error.fix) from error
    except RULE_FAULTS as error:  # as above
        raise RuleInvalid(_named(spec, describe_fault(error)), fix=_FIX) from error
    return quicken_needs(spec.rule, needs) if spec.preset else needs


def _named(spec: RuleSpec, message: str) -> str:
    return message if message.startswith(f"rule {spec.name}") else f"rule {spec.name}: {message}"


def _unknown(rule: str, catalogue: Mapping[str, object]) -> RuleInvalid:
    near = difflib.get_close_matches(rule, catalogue, n=1, cutoff=0.5)
    spelled = {name.lower().replace("_", ""): name for name in catalogue}
    same = spelled.get(rule.lower().replace("_", ""))
    if same or near:
        fix = f"did you mean {same or near[0]}? `stoker rules ls` lists all"
    else:
        fix = "`stoker rules ls` lists all; your own class is named mine.py:LargeGradient"
    return RuleInvalid(f"there is no rule {rule!r:.80}", fix=fix)


QUICK_INTERVAL = 10
"""Every how many steps a quick rule has its tensors saved."""

QUICK_LOSS_INTERVAL = 1
"""A loss is one number: it is saved at each step."""

# It counts steps in which anything was saved, so all it needs is saved at the same ones.
QUICK_INTERVALS: Mapping[str, int] = {"PoorWeightInitialization": 5}

# Settings that count steps, samples or seconds for a job of days. What the user sets wins.
QUICK_PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "CheckInputImages": {"threshold_samples": "100"},
    "ClassImbalance": {"samples": "100"},
    # Of losses at each step, which go up and down by chance: five would be a false alarm.
    "Overtraining": {"patience_train": "30"},
    "StalledTrainingRule": {"threshold": "300"},
}


def quicken_parameters(rule: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """The rule's settings in a short job."""
    return {**QUICK_PARAMETERS.get(rule, {}), **parameters}


def quicken_needs(rule: str, needs: Sequence[Need]) -> list[Need]:
    """The same needs, saved often; an interval that a rule asks for itself stays."""
    return [
        need
        if need.save_interval is not None
        else replace(need, save_interval=QUICK_INTERVALS.get(rule) or _interval(need))
        for need in needs
    ]


def _interval(need: Need) -> int:
    is_loss = need.is_by_collection and need.collection in ("losses", "scalars")
    return QUICK_LOSS_INTERVAL if is_loss else QUICK_INTERVAL
