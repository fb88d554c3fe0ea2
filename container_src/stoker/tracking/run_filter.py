"""MLflow's filter language: `metrics.loss < 0.1 and params.opt = 'adam' and tags.t LIKE 'a%'`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.errors import HostError

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    |(?P<sign><=|>=|!=|=|<|>|\(|\)|,)
    |(?P<word>[^\s'"`<>=!(),]+)
    )""",
    re.VERBOSE,
)
_GROUPS = {
    **dict.fromkeys(("metric", "metrics"), "metrics"),
    **dict.fromkeys(("param", "params", "parameter", "parameters"), "params"),
    **dict.fromkeys(("tag", "tags"), "tags"),
    **dict.fromkeys(("attribute", "attributes", "attr", "run"), "attributes"),
}
_COMPARE: Mapping[str, Callable[[float | str, float | str], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]  # both of one type, by _read_pair
    "<=": lambda a, b: a <= b,  # type: ignore[operator]  # the same
    ">": lambda a, b: a > b,  # type: ignore[operator]  # the same
    ">=": lambda a, b: a >= b,  # type: ignore[operator]  # the same
}

Facts = Mapping[str, Mapping[str, float | str | None]]
"""`metrics`, `params`, `tags` and `attributes` of a run."""


class FilterInvalid(HostError):
    """A filter that cannot be read; the text says where."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One comparison."""

    group: str
    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, facts: Facts) -> bool:
        """Whether a run fits; one that has no such value fits IS NULL only."""
        value = facts[self.group].get(self.key)
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return (value is None) == (self.operator == "IS NULL")
        if value is None:
            return False
        if self.operator in ("IN", "NOT IN"):
            return (str(value) in self.values) == (self.operator == "IN")
        if self.operator in ("LIKE", "ILIKE"):
            flags = re.DOTALL | (re.IGNORECASE if self.operator == "ILIKE" else 0)
            parts = (re.escape(part).replace("_", ".") for part in self.values[0].split("%"))
            return re.fullmatch(".*".join(parts), str(value), flags) is not None
        return _COMPARE[self.operator](*_read_pair(value, self.values[0]))


def _read_pair(value: float | str, text: str) -> tuple[float | str, float | str]:
    """Both as numbers if both are, else both as texts."""
    try:
        return float(value), float(text)
    except ValueError:
        return str(value), text


def parse_filter(text: str) -> list[Condition]:
    """The conditions of a filter, all of which must hold.

    Raises:
        FilterInvalid: it is not one.

    Example:
        >>> parse_filter("metrics.loss < 0.5")[0].holds({"metrics": {"loss": 0.1}})
        True
    """
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _invalid(text, f"unexpected {text[at : at + 10]!r}")
        tokens.append(found[0].strip())
        at = found.end()
    conditions: list[Condition] = []
    while tokens:
        if conditions and tokens.pop(0).upper() != "AND":
            raise _invalid(text, "conditions must be joined by AND")
        conditions.append(_read_condition(tokens, text))
    return conditions


def parse_key(text: str) -> tuple[str, str]:
    """Group and key of `metrics.loss`, `params."a b"`, `start_time`."""
    group, _, key = text.partition(".")
    if group.lower() in _GROUPS and key:
        return _GROUPS[group.lower()], _unquote(key)
    return "attributes", _unquote(text)


def _read_condition(tokens: list[str], text: str) -> Condition:
    try:
        name = tokens.pop(0)
        if name.endswith(".") and tokens:  # metrics."a b": the quoted key is a token of its own
            name += tokens.pop(0)
        operator = tokens.pop(0).upper()
        if operator in ("IS", "NOT"):
            operator = f"{operator} {tokens.pop(0).upper()}"
            if operator == "IS NOT":
                operator = f"{operator} {tokens.pop(0).upper()}"
        group, key = parse_key(name)
        if operator in ("IS NULL", "IS NOT NULL"):
            return Condition(group=group, key=key, operator=operator, values=())
        values = _read_values(tokens, operator, text)
    except IndexError:
        raise _invalid(text, "it ends too early") from None
    if operator not in (*_COMPARE, "LIKE", "ILIKE", "IN", "NOT IN"):
        raise _invalid(text, f"{operator!r} is not an operator")
    return Condition(group=group, key=key, operator=operator, values=values)


def _read_values(tokens: list[str], operator: str, text: str) -> tuple[str, ...]:
    if operator not in ("IN", "NOT IN"):
        return (_unquote(tokens.pop(0)),)
    if tokens.pop(0) != "(":
        raise _invalid(text, "IN needs a list in parentheses")
    values = []
    while (part := tokens.pop(0)) != ")":
        if part != ",":
            values.append(_unquote(part))
    return tuple(values)


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`" else text


def _invalid(text: str, what: str) -> FilterInvalid:
    return FilterInvalid(
        f"the filter {text!r} cannot be read: {what}",
        fix="write it as: metrics.loss < 0.1 and params.optimizer = 'adam'",
    )
