"""Rules in `stoker.toml` of the source directory.

[rules]
VanishingGradient = true
LossNotDecreasing = { num_steps = 5, stop = true }

[rules.large_gradient]
rule = "rules/mine.py:LargeGradient"
threshold = 3.0
email = ["me@example.com"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from stoker.debugging.specs.settings import make_spec
from stoker.debugging.specs.spec import RuleSpec
from stoker.errors import RuleInvalid

FILE_NAME = "stoker.toml"


def read_toml_form(content: str) -> list[RuleSpec]:
    """The rules of a file; other tables in it are somebody else's.

    Raises:
        RuleInvalid: with the rule and the place of the mistake.
    """
    try:
        tables = tomllib.loads(content).get("rules", {})
    except tomllib.TOMLDecodeError as error:
        raise RuleInvalid(f"{FILE_NAME} is not TOML: {error}", fix="mend that line") from None
    if not isinstance(tables, Mapping):
        raise _refusal("[rules]", f"is {tables!r:.80}")
    return [_read_rule(name, table) for name, table in tables.items() if table is not False]


def _read_rule(name: str, table: object) -> RuleSpec:
    where = f"[rules] {name}"
    if table is True:
        table = {}
    if not isinstance(table, Mapping):
        raise _refusal(where, f"is {table!r:.80}")
    settings = {key: _as_text(f"{where}: {key}", value) for key, value in table.items()}
    rule = settings.pop("rule", name)
    try:
        return make_spec(name, rule, settings)
    except RuleInvalid as error:
        raise RuleInvalid(f"{FILE_NAME}, {where}: {error.message}", fix=error.fix) from None


def _as_text(where: str, value: Any) -> str:  # noqa: ANN401 - whatever TOML has
    if isinstance(value, list):
        return ",".join(_as_text(where, item) for item in value)
    if isinstance(value, str | bool | int | float):
        return str(value)
    raise _refusal(where, f"is {value!r:.80}, but a number, text, list or true/false is expected")


def _refusal(where: str, what: str) -> RuleInvalid:
    return RuleInvalid(
        f"{FILE_NAME}, {where} {what}",
        fix="write VanishingGradient = true or LossNotDecreasing = { num_steps = 5, stop = true }",
    )
