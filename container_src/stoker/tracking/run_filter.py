"""MLflow's filter language: `metrics.loss < 0.1 and params.opt = 'adam' and tags.t LIKE 'a%'`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from stoker.errors import HostError

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`)
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
    **dict.fromkeys(("dataset", "datasets"), "datasets"),
}
_DATASET_KEYS = ("name", "digest", "context")
_COMPARE: Mapping[str, Callable[[float | str, float | str], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]  # both of one type, by _read_pair
    "<=": lambda a, b: a <= b,  # type: ignore[operator]  # the same
    ">": lambda a, b: a > b,  # type: ignore[operator]  # the same
    ">=": lambda a, b: a >= b,  # type: ignore[operator]  # the same
}

Facts = Mapping[str, Mapping[str, float | str | tuple[str, ...] | None]]
"""`metrics`, `params`, `tags`, `attributes` and `datasets`, which may be several."""


class FilterInvalid(HostError):
    """A filter that cannot be read; the text says where."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One comparison."""

    group: str
    key: str
    operator: str
    values: tuple[str, ...]
    is_quoted: bool
    """Its values are texts: what is in quotes is not compared as a number."""

    def holds(self, facts: Facts) -> bool:
        """Whether a run fits; one that has no such value fits IS NULL only."""
        value = facts.get(self.group, {}).get(self.key)
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return (value is None) == (self.operator == "IS NULL")
        if isinstance(value, tuple):
            return any(self._fits(each) for each in value)
        return value is not None and self._fits(value)

    def _fits(self, value: float | str) -> bool:
        if self.operator in ("IN", "NOT IN"):
            return (str(value) in self.values) == (self.operator == "IN")
        if self.operator in ("LIKE", "ILIKE"):
            return _is_like(str(value), self.values[0], ignores_case=self.operator == "ILIKE")
        return _COMPARE[self.operator](*self._read_pair(value))

    def _read_pair(self, value: float | str) -> tuple[float | str, float | str]:
        """Both as numbers if both are, else both as texts."""
        text = self.values[0]
        if self.is_quoted and isinstance(value, str):
            return value, text
        try:
            return float(value), float(text)
        except ValueError:
            return str(value), text


def _is_like(text: str, pattern: str, *, ignores_case: bool) -> bool:
    """Whether a text fits a pattern in which % is any text and _ any character."""
    flags = re.DOTALL | (re.IGNORECASE if ignores_case else 0)
    # re.escape() leaves _ as it is.
    first, *parts = (re.escape(part).replace("_", ".") for part in pattern.split("%"))
    if parts:
        # Each part is where it is found first, and is not sought again: never exponential.
        first += "".join(f"(?>.*?{part})" for part in parts[:-1]) + f".*{parts[-1]}"
    return re.fullmatch(first, text, flags) is not None


def parse_filter(text: str, attributes: Collection[str]) -> list[Condition]:
    """The conditions of a filter, all of which must hold.

    Args:
        text: the filter.
        attributes: the names that need no group, such as `status`.

    Raises:
        FilterInvalid: it is not one.

    Example:
        >>> parse_filter("metrics.loss < 0.5", ())[0].holds({"metrics": {"loss": 0.1}})
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
        conditions.append(_read_condition(tokens, text, attributes))
    return conditions


def parse_key(text: str, attributes: Collection[str]) -> tuple[str, str]:
    """Group and key of `metrics.loss`, `params."a b"`, `start_time`.

    Raises:
        FilterInvalid: there is no such group or attribute.
    """
    name, _, key = text.partition(".")
    group = _GROUPS.get(name.lower()) if key else "attributes"
    raw = key or text
    key = _unquote(raw)
    if key == raw and re.search(r"\s", raw):
        raise FilterInvalid(f"{text!r} has a space", fix=f"put quotes around it: `{raw}`")
    if group is None:
        raise FilterInvalid(
            f"{text!r} names nothing of a run: {name!r} is none of {', '.join(_GROUPS)}",
            fix=f"write metrics.{key} or params.{key}",
        )
    known = {"attributes": attributes, "datasets": _DATASET_KEYS}.get(group)
    if known is not None and key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        fix = near[0] if near else f"metrics.{key}, params.{key} or tags.{key}"
        raise FilterInvalid(
            f"{text!r} is not one of the {group}: {', '.join(sorted(known))}", fix=f"write {fix}"
        )
    return group, key


def _read_condition(tokens: list[str], text: str, attributes: Collection[str]) -> Condition:
    try:
        name = tokens.pop(0)
        if name.endswith(".") and tokens:  # metrics."a b": the quoted key is a token of its own
            name += tokens.pop(0)
        operator = tokens.pop(0).upper()
        if operator in ("IS", "NOT"):
            operator = f"{operator} {tokens.pop(0).upper()}"
            if operator == "IS NOT":
                operator = f"{operator} {tokens.pop(0).upper()}"
        if operator in ("IS NULL", "IS NOT NULL"):
            values = []
        elif operator in (*_COMPARE, "LIKE", "ILIKE", "IN", "NOT IN"):
            values = _read_values(tokens, operator, text)
        else:
            raise _invalid(text, f"{operator!r} is not an operator")
    except IndexError:
        raise _invalid(text, "it ends too early") from None
    group, key = parse_key(name, attributes)
    return Condition(
        group=group,
        key=key,
        operator=operator,
        values=tuple(map(_unquote, values)),
        is_quoted=all(value[0] in "'\"" for value in values),
    )


def _read_values(tokens: list[str], operator: str, text: str) -> list[str]:
    if operator not in ("IN", "NOT IN"):
        return [tokens.pop(0)]
    if tokens.pop(0) != "(":
        raise _invalid(text, "IN needs a list in parentheses")
    values = [tokens.pop(0)]
    while (part := tokens.pop(0)) != ")":
        if part != ",":
            raise _invalid(text, "the values of a list are separated by commas")
        # Python shows a tuple of one value as ('a',), and scripts put that into their filters.
        if tokens[0] != ")":
            values.append(tokens.pop(0))
    return values


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`":
        return text[1:-1].replace(2 * text[0], text[0])
    return text


def _invalid(text: str, what: str) -> FilterInvalid:
    return FilterInvalid(
        f"the filter {text!r} cannot be read: {what}",
        fix="write it as: metrics.loss < 0.1 and params.optimizer = 'adam'",
    )
