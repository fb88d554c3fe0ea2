"""JSON without `import json`, which pulls in `re` and `enum`: a third of the launcher's start.

These are the C scanner and encoder that the json package itself uses (docs/decisions/0003);
tests hold both equal to it. An interpreter without them gets the package.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, cast
else:

    def cast(_kind, value):  # noqa: ANN001, ANN201 - replaces typing's, unseen by mypy
        return value


_SPACE = " \t\n\r"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Settings:
    """What the scanner asks of the decoder it belongs to: the defaults of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__


def loads(text: str) -> Any:  # noqa: ANN401 - JSON is any of six types
    """Like `json.loads`; raises ValueError or RecursionError."""
    try:
        return loads_unexplained(text)
    except ValueError:
        from json import loads as explain

        return explain(text)  # says what is wrong, and where


def loads_unexplained(text: str) -> Any:  # noqa: ANN401 - as above
    """The same for texts that often are not JSON: its error does not say why."""
    try:
        # Unlike loads() the scanner skips neither the space before a value nor what comes behind
        # it.
        value, end = _scan(text, len(text) - len(text.lstrip(_SPACE)))
    except (StopIteration, SystemError) as error:  # SystemError: it wants to raise json's own
        raise ValueError("not JSON") from error
    if text[end:].strip(_SPACE):
        raise ValueError("more than one JSON value")
    return value


def dumps(value: object) -> str:
    """Like `json.dumps` with sorted keys and no spaces; other values become their text."""
    return "".join(_encode(value, 0))


_scan: Callable[[str, int], tuple[Any, int]]
_encode: Callable[[object, int], Iterable[str]]
try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    # The class itself will do: the scanner reads its attributes once, when it is made.
    _scan = make_scanner(cast("Any", _Settings))
    # markers, default, string encoder, indent, two separators, sort_keys, skipkeys, allow_nan
    _encode = make_encoder({}, str, encode_basestring_ascii, None, ":", ",", True, False, True)
except (ImportError, TypeError):  # another implementation of Python, or a new signature
    from json import JSONDecoder, JSONEncoder

    _scan = cast("Any", JSONDecoder()).scan_once
    _encode = cast(
        "Any", JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).iterencode
    )
