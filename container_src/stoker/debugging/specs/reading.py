"""Reading the rules of a job from any of their forms, and writing them as one text."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.contract.files import read_regular
from stoker.debugging.specs.api_form import make_entry, read_api_form
from stoker.debugging.specs.settings import make_spec
from stoker.debugging.specs.short_form import read_short_form
from stoker.debugging.specs.spec import RuleSpec
from stoker.errors import RuleInvalid

MOST_RULES = 40
"""The service takes 20 of the debugger and 20 of the profiler for one job."""


def read_specs(text: str) -> list[RuleSpec]:
    """The rules of a text: the service's JSON, or the short form.

    In the short form a mistake is raised. In the service's JSON it becomes the `fault` of its
    rule, as the service would report it in that rule's status; `check_specs` raises those of
    our own forms.

    Raises:
        RuleInvalid: with the rule, the place and what to do.

    Example:
        >>> read_specs("VanishingGradient, LossNotDecreasing(num_steps=5, stop)")
    """
    text = text.strip()
    specs = _read_json(text) if text.startswith(("[", "{")) else read_short_form(text)
    _refuse_many(specs)
    return specs


def read_project_specs(text: str, code_dir: Path) -> list[RuleSpec]:
    """The rules of a job: of STOKER_RULES and of stoker.toml next to the code.

    A rule of the variable stands for the one of the same name in the file.

    Raises:
        RuleInvalid: a mistake in either.
    """
    file = code_dir / FILE_NAME
    try:
        of_file = read_toml_form(read_regular(str(file), follow_links=True).decode())
    except (FileNotFoundError, NotADirectoryError):
        of_file = []
    except (OSError, UnicodeDecodeError) as error:
        raise RuleInvalid(
            f"{FILE_NAME} cannot be read: {error}", fix="write it in UTF-8"
        ) from None
    asked = read_specs(text)
    names = {spec.name for spec in asked}
    specs = [*asked, *(spec for spec in of_file if spec.name not in names)]
    _refuse_many(specs)
    return specs


def write_specs(specs: Sequence[RuleSpec]) -> str:
    """One JSON text that `read_specs` reads back; for rule_plan.json."""
    return json.dumps([make_entry(spec) for spec in specs], separators=(",", ":"))


def _read_json(text: str) -> list[RuleSpec]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RuleInvalid(
            f"the rules start like JSON, but are not valid JSON: {error}",
            fix="a list of objects, or the short form: VanishingGradient, AllZero(…)",
        ) from None
    return read_api_form(parsed if isinstance(parsed, list) else [parsed])


def _refuse_many(specs: Sequence[RuleSpec]) -> None:
    if len(specs) > MOST_RULES:
        raise RuleInvalid(
            f"{len(specs)} rules are asked for, but a job takes at most {MOST_RULES}",
            fix="leave some out, or evaluate the saved tensors afterwards: stoker rules run",
        )
    names = [spec.name for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RuleInvalid(
            f"two rules are called {twice!r}",
            fix=f"give one another name: {twice}(name=second, …), or Rule.sagemaker(name=…)",
        )


FILE_NAME = "stoker.toml"


def read_toml_form(content: str) -> list[RuleSpec]:
    """The rules of a file; other tables in it belong to other programs.

    Raises:
        RuleInvalid: with the rule and the place of the mistake.
    """
    try:
        tables = tomllib.loads(content).get("rules", {})
    except tomllib.TOMLDecodeError as error:
        raise RuleInvalid(f"{FILE_NAME} is not TOML: {error}", fix="fix that line") from None
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
