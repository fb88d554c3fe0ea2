"""All rules of the profiler at once, with their JSON files."""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Mapping
from typing import Any

from stoker.bus.system_samples import GPU_UTILIZATION
from stoker.debugging.booleans import parse_boolean
from stoker.debugging.profiler_rules import EXTENSIONS, PROFILER_CATALOGUE, SERVICE_RULES
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding
from stoker.errors import RuleInvalid

_CUSTOM, _TELEMETRY = "custom_rule_parameters", "opt_out_telemetry"


class ProfilerReport(ProfilerRule):
    """All rules of the profiler, their results as JSON files, and the page `profiler-report.html`.

    Fires at the end of the job if any of the service's eleven rules has fired at any time; on
    machines without GPU Stoker's extensions count, too.

    The parameters of the rules are set by `<Rule>_<parameter>`, such as
    `CPUBottleneck_threshold`, or as JSON in `custom_rule_parameters`.
    """

    @classmethod
    def quicken(cls, settings: Mapping[str, str]) -> dict[str, str]:
        """The same for each of its rules."""
        of_rules = {
            f"{name}_{parameter}": text
            for name in (*SERVICE_RULES, *EXTENSIONS)
            for parameter, text in PROFILER_CATALOGUE[name].quick.items()
        }
        return super().quicken({**of_rules, **settings})

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        own, of_rules = _sort(settings or {})
        super().__init__(own)
        self.rules: dict[str, ProfilerRule] = {
            name: PROFILER_CATALOGUE[name](of_rules.get(name, {}))
            for name in (*SERVICE_RULES, *EXTENSIONS)
        }
        self.findings: dict[str, Finding] = {}
        """The latest of each rule that has fired."""
        self.faults: dict[str, str] = {}
        """Rules that failed: each on its own, not under the name of the one before."""

    def look(self, profile: Profile) -> Finding | None:
        has_gpu = any(profile.devices(node, GPU_UTILIZATION) for node in profile.nodes)
        for name, rule in self.rules.items():
            try:
                finding = rule.scan(profile)
            except (ArithmeticError, ValueError, LookupError, TypeError) as error:
                self.faults[name] = f"{type(error).__name__}: {error}"
                continue
            if finding is not None:
                self.findings[name] = finding
        self.datapoints = max(rule.datapoints for rule in self.rules.values())
        counted = [
            name for name in self.findings if not (has_gpu and self.rules[name].is_extension)
        ]
        self.violations = len(counted)
        if not counted:
            return None
        first = self.findings[counted[0]]
        return Finding(
            message=f"{', '.join(counted)} found something; {counted[0]}: {first.message}",
            values={"rules": len(counted)},
            hint=first.hint,
        )

    def scan(self, profile: Profile, *, is_last: bool = False) -> Finding | None:
        """As in the service, its verdict comes when everything has been seen."""
        finding = super().scan(profile)
        self.lacking = (
            "" if finding else "; ".join(f"{name}: {fault}" for name, fault in self.faults.items())
        )
        return finding if is_last else None

    def reports(self) -> dict[str, dict[str, Any]]:
        """Rule → the content of its JSON file."""
        return {name: rule.report() for name, rule in self.rules.items()}


def _sort(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The report's own settings, and rule → its settings."""
    own: dict[str, str] = {}
    flat: dict[str, str] = {}
    for name, text in settings.items():
        if name == _CUSTOM:
            flat |= _read_custom(text)
        elif name == _TELEMETRY:
            _require_boolean(name, text)  # nothing is ever sent
        elif name in ProfilerRule.parameters:
            own[name] = text
        else:
            flat[name] = text
    of_rules: dict[str, dict[str, str]] = {}
    for name, text in flat.items():
        rule, parameter = _split(name)
        of_rules.setdefault(rule, {})[parameter] = text
    return own, of_rules


def _split(name: str) -> tuple[str, str]:
    """`CPUBottleneck` and `gpu_threshold` of `cpubottleneck_gpu_threshold`.

    Raises:
        RuleInvalid: there is no such rule, or it has no such parameter.
    """
    spelled = {rule.lower(): rule for rule in (*SERVICE_RULES, *EXTENSIONS)}
    head, _, parameter = name.partition("_")
    rule = spelled.get(head.lower())
    if rule is None:
        near = difflib.get_close_matches(head.lower(), spelled, n=1)
        fix = f"did you mean {spelled[near[0]]}_{parameter}?" if near else "<Rule>_<parameter>"
        raise RuleInvalid(f"ProfilerReport has no parameter {name!r:.80}", fix=fix)
    known = {parameter.lower(): parameter for parameter in PROFILER_CATALOGUE[rule].parameters}
    return rule, known.get(parameter.lower(), parameter)


def _read_custom(text: str) -> dict[str, str]:
    for parse in (json.loads, ast.literal_eval):
        try:
            parsed = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(parsed, dict):
            return {str(name): str(value) for name, value in parsed.items()}
    raise RuleInvalid(
        f"{_CUSTOM} is {text!r:.120}", fix='JSON such as {"CPUBottleneck_threshold": "90"}'
    )


def _require_boolean(name: str, text: str) -> None:
    try:
        parse_boolean(text)
    except ValueError:
        raise RuleInvalid(f"{name} is {text!r:.80}", fix="use True or False") from None
