"""From the settings of one rule, as text, to its spec; the service's `action_json` included."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from stoker.debugging.booleans import parse_boolean
from stoker.debugging.specs.spec import PRESETS, Action, ActionKind, RuleSpec, check_action
from stoker.errors import RuleInvalid

TARGETED = ("email", "sms", "webhook")
# The service names the tensors to evaluate and where to leave reports; here both are given.
_UNUSED = ("base_trial",)
_OTHER_TRIAL = re.compile(r"other_trial_(\d+)")


def make_spec(name: str, rule: str, settings: Mapping[str, str]) -> RuleSpec:
    """Sorts settings: the engine's are taken out, the rest are the rule's own.

    Args:
        name: what the rule is called in its job.
        rule: which rule; a setting `rule_to_invoke` wins over it.
        settings: name → text. The engine's: `rule_to_invoke`, `source_s3_uri`, `base_trial`,
            `other_trials`, `other_trial_N`, `action_json`, `preset`, `dry_run`, `stop`, `email`,
            `sms`, `webhook` (several addresses or places: one comma-separated text).

    Raises:
        RuleInvalid: an action that cannot be carried out, or a preset that does not exist.
    """
    own = {key: text for key, text in settings.items() if key not in _UNUSED}
    rule = own.pop("rule_to_invoke", "") or rule
    if not rule:
        raise RuleInvalid(
            "it does not say which rule it is",
            fix='set "rule_to_invoke": "VanishingGradient" in its RuleParameters',
        )
    return RuleSpec(
        name=name,
        rule=rule,
        source=own.pop("source_s3_uri", ""),
        other_trials=_take_other_trials(own),
        actions=_take_actions(own),
        preset=_take_preset(own),
        is_dry_run=_take_flag(own, "dry_run"),
        parameters=own,
    )


def read_actions(texts: list[str]) -> tuple[Action, ...]:
    """Actions in their short spelling: `stop`, `email:me@example.com`.

    Raises:
        RuleInvalid: one that does not exist or cannot be carried out.
    """
    actions = []
    for text in texts:
        kind, _, target = text.partition(":")
        if kind not in ("stop", *TARGETED):
            raise RuleInvalid(
                f"there is no action {text!r:.80}",
                fix="stop, email:ADDRESS, sms:+NUMBER or webhook:URL",
            )
        actions.append(check_action(Action(kind=cast(ActionKind, kind), target=target)))
    return tuple(actions)


def _take_actions(settings: dict[str, str]) -> tuple[Action, ...]:
    actions = list(read_action_json(settings.pop("action_json", "")))
    if _take_flag(settings, "stop"):
        actions.append(Action(kind="stop"))
    for kind in TARGETED:
        if kind in settings:
            targets = [target.strip() for target in settings.pop(kind).split(",")]
            actions += read_actions([f"{kind}:{target}" for target in targets])
    return tuple(dict.fromkeys(actions))


def _take_other_trials(settings: dict[str, str]) -> tuple[str, ...]:
    found = {int(m[1]): key for key in settings if (m := _OTHER_TRIAL.fullmatch(key))}
    listed = [place.strip() for place in settings.pop("other_trials", "").split(",")]
    return (*filter(None, listed), *(settings.pop(found[number]) for number in sorted(found)))


def _take_preset(settings: dict[str, str]) -> str:
    preset = settings.pop("preset", "")
    if preset and preset not in PRESETS:
        raise RuleInvalid(f"there is no preset {preset!r:.80}", fix=f"one of {', '.join(PRESETS)}")
    return preset


def _take_flag(settings: dict[str, str], name: str) -> bool:
    text = settings.pop(name, "False")
    try:
        return parse_boolean(text)
    except ValueError:
        raise RuleInvalid(f"{name} is {text!r:.80}", fix="use True or False") from None


_EXAMPLE = '[{"name": "stoptraining", "training_job_prefix": "my-job"}]'


def read_action_json(text: str) -> tuple[Action, ...]:
    r"""The actions of one rule. Nothing is lower-cased, as smdebug does: names have capitals.

    Args:
        text: one object or a list of them, plain or as the SDK writes it: `[{\"name\": …}]`.

    Raises:
        RuleInvalid: no such JSON, or an action that lacks what it needs. The service skips
            such an action silently.
    """
    if not text.strip():
        return ()
    entries = _parse(text)
    return tuple(_make_action(entry) for entry in entries)


def _parse(text: str) -> list[Any]:
    for form in (text, text.replace('\\"', '"')):
        try:
            parsed = json.loads(form)
        except (ValueError, RecursionError):
            continue
        return parsed if isinstance(parsed, list) else [parsed]
    raise RuleInvalid(f"action_json is not JSON: {text!r:.200}", fix=f"such as {_EXAMPLE}")


def _make_action(entry: object) -> Action:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise RuleInvalid(
            f"action_json holds {entry!r:.80}, which has no name", fix=f"such as {_EXAMPLE}"
        )
    name = entry["name"].lower()
    if name == "stoptraining":
        prefix = entry.get("training_job_prefix")
        if not isinstance(prefix, str) or not prefix:
            raise RuleInvalid(
                "StopTraining has no training_job_prefix: the service would skip it silently",
                fix="rule_configs.StopTraining('my-job'), with how the job's name begins",
            )
        return Action(kind="stop", target=prefix)
    if name not in ("email", "sms", "webhook"):
        raise RuleInvalid(
            f"there is no action {entry['name']!r:.80}",
            fix="one of stoptraining, email, sms, webhook",
        )
    target = entry.get("endpoint")
    return check_action(Action(kind=name, target=target if isinstance(target, str) else ""))
