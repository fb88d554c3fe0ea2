"""The rules there are, for people and for programs."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.debugging.need import Need, check_needs
from stoker.debugging.profiler_rules import PROFILER_CATALOGUE
from stoker.debugging.rule import Parameter, Rule
from stoker.debugging.rule_faults import RULE_FAULTS, describe_fault
from stoker.debugging.rules import CATALOGUE
from stoker.debugging.rules.loading import load_rule
from stoker.errors import RuleInvalid
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_table

_CATALOGUES: tuple[Mapping[str, type[Rule]], ...] = (CATALOGUE, PROFILER_CATALOGUE)
_COLUMNS = 96
_FIX = "fix that line; docs/guide/rules.md shows a whole rule"
_KINDS = {int: "whole number", float: "number", bool: "True or False", str: "text"}


def find_rule(name: str) -> type[Rule]:
    """A rule of the catalogue, however it is spelt, or a class of the user's by its path.

    Raises:
        UsageRefused: there is no such rule (names the nearest), or it cannot be loaded.
    """
    known = find_name(name)
    for catalogue in _CATALOGUES:
        if known in catalogue:
            return catalogue[known]
    if ":" in name:
        return _load(name)
    near = difflib.get_close_matches(name, _names(), n=1, cutoff=0.5)
    fix = f"did you mean {near[0]}?" if near else "`stoker rules ls` lists all;"
    raise UsageRefused(
        f"there is no rule {name!r}", fix=f"{fix} your own class is mine.py:LargeGradient"
    )


def find_name(name: str) -> str:
    """`VanishingGradient` of `vanishing_gradient`; what is not in the catalogue stays as it is."""
    spelled = {_letters(known): known for known in _names()}
    return spelled.get(_letters(name), name)


def make_listing() -> list[dict[str, str]]:
    """Every rule with the first line of what it says of itself; those of the profiler last."""
    return [{"rule": name, "about": _summary(find_rule(name))} for name in _names()]


def render_listing(listing: Sequence[Mapping[str, str]]) -> str:
    """The same as a table."""
    lines = make_table([(entry["rule"], entry["about"]) for entry in listing])
    return "\n".join(
        [*lines, "", "stoker rules explain NAME   parameters, defaults, what it needs"]
    )


def make_page(name: str) -> dict[str, Any]:
    """All about one rule.

    Raises:
        UsageRefused: there is no such rule, or it has a mistake.
    """
    cls = find_rule(name)
    return {
        "rule": cls.__name__,
        "name": find_name(name),
        "about": inspect.cleandoc(cls.__doc__ or ""),
        "parameters": [_parameter(each) for each in cls.parameters.values()],
        "needs": _needs(cls),
    }


def render_page(page: Mapping[str, Any]) -> str:
    """The same for people."""
    rule, name, needs = page["rule"], page["name"], page["needs"]
    lines = [rule, "=" * len(rule), "", page["about"], "", "Parameters"]
    rows = [(f"  {p['name']}", _default(p), p["kind"], p["help"]) for p in page["parameters"]]
    lines += make_table(rows) or ["  none"]
    if name in PROFILER_CATALOGUE:
        lines += ["", "Needs", "  a profile: STOKER_PROFILE=auto, or a ProfilerConfig"]
        return "\n".join([*lines, "", "Use", f'  STOKER_RULES="{name}"', "  stoker report JOB"])
    lines += ["", "Needs", *(f"  {need}" for need in needs or ["what its parameters name"])]
    lines += ["", "Use", f'  STOKER_RULES="{name}"', f"  stoker rules run {name} DIR"]
    return "\n".join(lines)


def say_need(need: Need) -> str:
    """Which tensors, in words."""
    where = f"{need.side}s of " if need.module_classes or need.of_model or need.of_loss else ""
    what = (
        (f"tensors whose name matches {need.regex}" if need.regex else "")
        or (where + ", ".join(need.module_classes) if need.module_classes else "")
        or (f"{where}the model" if need.of_model else "")
        or (f"{where}the loss" if need.of_loss else "")
        or f"the collection {need.collection}"
    )
    position = f" (number {need.position})" if need.position is not None else ""
    enough = f"; {', '.join(need.reductions)} will do" if need.reductions else ""
    optional = "; it continues without" if need.is_optional else ""
    return f"{what}{position}{enough}{optional}"


def _names() -> list[str]:
    return [name for catalogue in _CATALOGUES for name in catalogue]


def _load(name: str) -> type[Rule]:
    try:
        return load_rule(name, folder=Path())
    except RuleInvalid as error:
        raise UsageRefused(error.message, fix=error.fix) from error


def _parameter(parameter: Parameter) -> dict[str, Any]:
    limits = [
        f"from {parameter.minimum:g}" if parameter.minimum is not None else "",
        f"to {parameter.maximum:g}" if parameter.maximum is not None else "",
        f"one of {', '.join(parameter.choices)}" if parameter.choices else "",
    ]
    kind = " ".join([_KINDS[parameter.kind], *filter(None, limits)])
    return {
        "name": parameter.name,
        "default": parameter.default,
        "kind": kind,
        "help": parameter.help,
    }


def _default(parameter: Mapping[str, Any]) -> str:
    default = parameter["default"]
    return "–" if default is None else f"{default:g}" if type(default) is float else f"{default}"


def _needs(cls: type[Rule]) -> list[str]:
    """What it needs as it is, tried out: a class of the user's may have a mistake.

    Raises:
        UsageRefused: it has one.
    """
    try:
        rule = cls({})
    except RuleInvalid:  # it cannot be made without parameters
        return []
    except RULE_FAULTS as error:
        raise UsageRefused(f"{cls.__name__}: {describe_fault(error)}", fix=_FIX) from error
    try:
        return [say_need(need) for need in check_needs(rule.needs())]
    except RuleInvalid as error:
        raise UsageRefused(f"{cls.__name__}: {error.message}", fix=error.fix) from error
    except RULE_FAULTS as error:
        raise UsageRefused(f"{cls.__name__}: {describe_fault(error)}", fix=_FIX) from error


def _summary(cls: type[Rule]) -> str:
    first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    return textwrap.shorten(" ".join(first.split()), _COLUMNS, placeholder=" …")


def _letters(name: str) -> str:
    return name.lower().replace("_", "")
