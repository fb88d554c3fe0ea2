"""CloudWatch's filter patterns for plain text: words, phrases, `-not`, `?either`."""

from __future__ import annotations

import re
from collections.abc import Callable

from stoker.host.platform import faults

_TERM = re.compile(r'\s*([-?]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))')

Matches = Callable[[str], bool]


def make_matcher(pattern: str) -> Matches:
    """A test for one event's text.

    Raises:
        ApiFault: a JSON or column pattern, or one that cannot be read.
    """
    text = pattern.strip()
    if text.startswith(("{", "[", "%")):
        raise faults.log_parameter(
            'The local platform filters by words and "phrases" only, not by JSON, columns or'
            f" regular expressions: {pattern}"
        )
    every, none, either = _terms(text)

    def matches(line: str) -> bool:
        return (
            all(term in line for term in every)
            and not any(term in line for term in none)
            and (not either or any(term in line for term in either))
        )

    return matches


def _terms(text: str) -> tuple[list[str], list[str], list[str]]:
    kinds: dict[str, list[str]] = {"": [], "-": [], "?": []}
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise faults.log_parameter(f"Invalid filter pattern: {text}")
        position = term.end()
        quoted = term[2]
        kinds[term[1]].append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else term[3])
    return kinds[""], kinds["-"], kinds["?"]
