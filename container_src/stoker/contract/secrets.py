"""Keeping secrets out of logs and failure reasons."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "******"

_ALWAYS = {"secret", "secrets", "password", "passwd", "passphrase"}
_UNLESS_NUMERIC = {
    "key",
    "keys",
    "apikey",
    "token",
    "tokens",
    "private",
    "creds",
    "credential",
    "credentials",
    "auth",
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL_LOGIN = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_AWS_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_SHORTEST = 4


class Masker:
    """Replaces known secret values, logins in URLs and AWS key ids in any text."""

    def __init__(self, *sources: Mapping[str, str]) -> None:
        found = {
            spelling
            for source in sources
            for name, value in source.items()
            if is_secret(name, value)
            for spelling in (value, value.strip('"'))  # SDK v2 sends texts JSON-quoted
            if len(spelling) >= _SHORTEST
        }
        # Longest first, so that no secret hides behind a shorter one it contains.
        self._values = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        return _AWS_KEY_ID.sub(MASK, _URL_LOGIN.sub(MASK, text))


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name holds a secret: api_key does, max_tokens=512 does not."""
    words = {word.lower() for word in _WORDS.findall(name)}
    if words & _ALWAYS:
        return True
    return bool(words & _UNLESS_NUMERIC) and not _is_plain(value)


def _is_plain(value: str) -> bool:
    return value.strip('"').lower() in ("true", "false", "null", "") or bool(
        re.fullmatch(r'"?[-+.\deE]{1,12}"?', value)
    )
