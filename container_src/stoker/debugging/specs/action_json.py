"""The service's `action_json`: a JSON text in which the quotes are preceded by backslashes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker.debugging.specs.spec import Action, check_action
from stoker.errors import RuleInvalid

_EXAMPLE = '[{"name": "stoptraining", "training_job_prefix": "my-job"}]'


def read_action_json(text: str) -> tuple[Action, ...]:
    r"""The actions of one rule. Nothing is lower-cased, as smdebug does: names have capitals.

    Args:
        text: one object or a list of them, plain or as the SDK writes it: `[{\"name\": …}]`.

    Raises:
        RuleInvalid: no such JSON, or an action that lacks what it needs. The service skips
            such a one, and nobody hears of it.
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
