"""Rules in the service's JSON (DebugRuleConfigurations), and a few keys of Stoker.

[{"RuleConfigurationName": "VanishingGradient",
  "RuleParameters": {"rule_to_invoke": "VanishingGradient", "action_json": "…"},
  "Actions": ["stop", "email:me@example.com"],   what is left when ours were read once
  "Needs": [{"collection": "gradients"}],        so that the hook need not make the rule
  "IsOurs": true,                                it did not come from the service
  "Fault": "…"}]                                 it cannot be made
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.debugging.description import changed_values
from stoker.debugging.need import Need
from stoker.debugging.specs.settings import make_spec, read_actions
from stoker.debugging.specs.spec import RuleSpec
from stoker.errors import RuleInvalid

_NAME = "RuleConfigurationName"


def read_api_form(entries: list[Any]) -> list[RuleSpec]:
    """One spec for each entry. A mistake inside an entry becomes the fault of its spec.

    Raises:
        RuleInvalid: an entry has no name, so that no status could tell of it.
    """
    return [_read_entry(entry, place) for place, entry in enumerate(entries)]


def make_entry(spec: RuleSpec) -> dict[str, Any]:
    """The JSON of a spec; reading it gives the same spec."""
    settings = {
        **spec.parameters,
        "rule_to_invoke": spec.rule,
        **({"source_s3_uri": spec.source} if spec.source else {}),
        **({"preset": spec.preset} if spec.preset else {}),
        **({"dry_run": "True"} if spec.is_dry_run else {}),
        **{f"other_trial_{n}": place for n, place in enumerate(spec.other_trials)},
    }
    entry: dict[str, Any] = {_NAME: spec.name, "RuleParameters": settings}
    if spec.actions:
        entry["Actions"] = [str(action) for action in spec.actions]
    if spec.needs is not None:
        entry["Needs"] = [changed_values(need) for need in spec.needs]
    if not spec.is_from_service:
        entry["IsOurs"] = True
    if spec.fault:
        entry["Fault"] = spec.fault
    return entry


def _read_entry(entry: object, place: int) -> RuleSpec:
    name = entry.get(_NAME) if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(name, str) or not name:
        raise RuleInvalid(
            f"entry {place} of the rules is {entry!r:.120}, which has no {_NAME}",
            fix=f'each is an object such as {{"{_NAME}": "VanishingGradient", '
            '"RuleParameters": {"rule_to_invoke": "VanishingGradient"}}',
        )
    is_from_service = entry.get("IsOurs") is not True
    try:
        spec = _read_settings(name, entry)
    except RuleInvalid as error:
        return RuleSpec(
            name=name, rule=_rule_of(entry), fault=str(error), is_from_service=is_from_service
        )
    fault = entry.get("Fault")
    return replace(
        spec,
        needs=_read_needs(entry.get("Needs")),
        fault=fault if isinstance(fault, str) else "",
        is_from_service=is_from_service,
    )


def _read_settings(name: str, entry: Mapping[str, Any]) -> RuleSpec:
    settings = entry.get("RuleParameters") or {}
    is_texts = isinstance(settings, Mapping) and all(
        isinstance(item, str) for pair in settings.items() for item in pair
    )
    if not is_texts:
        raise RuleInvalid(
            f"its RuleParameters are {settings!r:.200}",
            fix="an object whose values are all texts: the service's API has no others",
        )
    spec = make_spec(name, "", settings)
    texts = entry.get("Actions") or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RuleInvalid(f"its Actions are {texts!r:.200}", fix='a list such as ["stop"]')
    return replace(spec, actions=tuple(dict.fromkeys((*spec.actions, *read_actions(texts)))))


def _rule_of(entry: Mapping[str, Any]) -> str:
    settings = entry.get("RuleParameters")
    rule = settings.get("rule_to_invoke") if isinstance(settings, Mapping) else None
    return rule if isinstance(rule, str) else ""


def _read_needs(entries: object) -> tuple[Need, ...] | None:
    if not isinstance(entries, list):
        return None
    try:
        return tuple(Need(**{k: _frozen(v) for k, v in entry.items()}) for entry in entries)
    except (TypeError, AttributeError):  # of another version of Stoker: the rule is asked again
        return None


def _frozen(value: Any) -> Any:  # noqa: ANN401 - a field of any type
    return tuple(value) if isinstance(value, list) else value
