"""Rules in one line: `VanishingGradient, LossNotDecreasing(num_steps=5, stop)`.

rules     one after the other, separated by commas, semicolons or line ends
rule      NAME or NAME(SETTING, …); NAME is a rule's, or your own class: mine.py:LargeGradient
setting   key=value, or one of the words `stop`, `quick`, `dry-run`
value     plain up to a comma or parenthesis, else in quotes: tensor_regex="conv(1|2),.*"
"""

from __future__ import annotations

import re

from stoker.debugging.specs.settings import make_spec
from stoker.debugging.specs.spec import RuleSpec
from stoker.errors import RuleInvalid

_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"[\s,;]*")
_NAME = re.compile(r"[\w./\-]+(?::\w+)?")
_KEY = re.compile(r"[\w.\-]+")
_PLAIN = re.compile(r"[^,()\"'\n;]*")
_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'""", re.DOTALL)
# What follows the host of a webhook is its password.
_SECRET = re.compile(r"(https?://[^/?\s\"']*)[/?]\S*")
_WORDS = {"stop": ("stop", "True"), "quick": ("preset", "quick"), "dry-run": ("dry_run", "True")}


def read_short_form(text: str) -> list[RuleSpec]:
    """The rules of a line.

    Raises:
        RuleInvalid: with the rule and the place of the mistake.
    """
    return _Scanner(text).rules()


class _Scanner:
    """Goes through the text once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._rule = ""

    def rules(self) -> list[RuleSpec]:
        found: list[RuleSpec] = []
        while True:
            self._skip(_BETWEEN)
            if self._at == len(self._text):
                return found
            found.append(self._one_rule())

    def _one_rule(self) -> RuleSpec:
        self._rule = ""
        rule = self._take(_NAME, "the name of a rule")
        self._rule = rule
        settings = self._settings() if self._skips("(") else {}
        if self._at < len(self._text) and self._text[self._at] not in " \t\r\n,;":
            raise self._refusal("expected a comma before the next rule")
        name = settings.pop("name", "") or rule.rpartition(":")[2]
        try:
            return make_spec(name, rule, settings)
        except RuleInvalid as error:
            raise RuleInvalid(f"rule {name}: {error.message}", fix=error.fix) from None

    def _settings(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        while not self._skips(")"):
            key, value = self._setting()
            if key in settings:
                raise self._refusal(f"{key} is set twice")
            settings[key] = value
            if not self._skips(",") and not self._sees(")"):
                raise self._refusal("expected a comma or a closing parenthesis")
        return settings

    def _setting(self) -> tuple[str, str]:
        self._skip(_SPACE)
        start = self._at
        key = self._take(_KEY, "a setting, such as threshold=0.1")
        if self._skips("="):
            return key, self._value()
        if key not in _WORDS:
            self._at = start
            raise self._refusal(f"{key!r} has no value, and is not one of {', '.join(_WORDS)}")
        return _WORDS[key]

    def _value(self) -> str:
        self._skip(_SPACE)
        if found := _QUOTED.match(self._text, self._at):
            self._at = found.end()
            inner = found[1] if found[1] is not None else found[2]
            return re.sub(r"\\([\"'])", r"\1", inner)  # other backslashes belong to a regex
        return self._take(_PLAIN, "a value").strip()

    def _take(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._refusal(f"expected {what}")
        self._at = found.end()
        return found[0]

    def _sees(self, character: str) -> bool:
        return self._text[self._at :].lstrip().startswith(character)

    def _skips(self, character: str) -> bool:
        if not self._sees(character):
            return False
        self._at = self._text.index(character, self._at) + 1
        return True

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _refusal(self, what: str) -> RuleInvalid:
        before = _SECRET.sub(r"\1/…", self._text[: self._at])[-30:]
        after = self._text[self._at : self._at + 20]
        if before.endswith("/…"):
            after, what = "", "expected a comma or a closing parenthesis after the URL"
        where = f"rule {self._rule}, " if self._rule else ""
        return RuleInvalid(
            f"{where}character {self._at + 1} (…{before}⟨here⟩{after}…): {what}",
            fix="write VanishingGradient, LossNotDecreasing(num_steps=5, stop); values with "
            "commas or parentheses need quotes",
        )
