"""Keeping secrets out of logs and failure reasons."""

from __future__ import annotations

from stoker.contract.hyperparameters import as_text

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
_NUMERIC = frozenset("0123456789+-.eE")
_LONGEST_NUMBER = 12
_URL_LOGIN = r"(?<=://)[^\s/'\"]+(?=@)"
_AWS_KEY_ID = r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
_AWS_KEY_STARTS = ("AKIA", "ASIA")
_SHORTEST = 4


class Masker:
    """Replaces known secret values, logins in URLs and AWS key ids in any text."""

    def __init__(self, *sources: Mapping[str, str]) -> None:
        found = {
            spelling
            for source in sources
            for name, value in source.items()
            if is_secret(name, value)
            for spelling in (value, as_text(value))  # SDK v2 sends texts JSON-quoted
            if len(spelling) >= _SHORTEST
        }
        # Longest first, so that no secret hides behind a shorter one it contains.
        self._values = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        if ("://" in text and "@" in text) or any(start in text for start in _AWS_KEY_STARTS):
            import re  # only a text that needs it pays for it

            text = re.sub(_AWS_KEY_ID, MASK, re.sub(_URL_LOGIN, MASK, text))
        return text


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name holds a secret: api_key does, max_tokens=512 does not."""
    lowered = name.lower()
    if not any(word in lowered for word in (*_ALWAYS, *_UNLESS_NUMERIC)):
        return False
    words = set(_words(name))
    if words & _ALWAYS:
        return True
    return bool(words & _UNLESS_NUMERIC) and not _is_plain(value)


def _is_plain(value: str) -> bool:
    text = value.strip('"')
    is_number = len(text) <= _LONGEST_NUMBER and _NUMERIC.issuperset(text)
    return is_number or text.lower() in ("true", "false", "null")


def _words(name: str) -> list[str]:
    """The words of api_key, API-KEY, apiKey and APIKey alike, in lower case."""
    spaced = ""
    for before, letter, after in zip(f" {name}", name, f"{name[1:]} ", strict=False):
        starts_word = letter.isupper() and (not before.isupper() or after.islower())
        spaced += f" {letter}" if starts_word or not letter.isalpha() else letter
    return "".join(c.lower() if c.isalpha() else " " for c in spaced).split()
