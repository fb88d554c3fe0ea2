"""Keeping secrets out of logs and failure reasons."""

from __future__ import annotations

from stoker.contract.hyperparameters import argument_text, as_text, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "******"

# Anywhere in a name, in one word or several: these are secrets whatever they hold.
_ALWAYS = {"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey"}
_ALWAYS |= {"authtoken", "accesstoken", "credential"}
_WORDS = {"pass", "pwd", "creds", "auth", "token", "tokens", "key", "keys", "private"}
# Words that make a harmless one of `key` and `token`: pad_token, max_tokens, label_key.
_HARMLESS = {"pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "start", "end", "stop"}
_HARMLESS |= {"max", "min", "num", "new", "label", "image", "text", "sort", "primary", "target"}
_NOT_SECRET = {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}
_NUMERIC = frozenset("0123456789+-.eE")
_LONGEST_NUMBER = 12
_LONGEST_WORD = 7
_URL_LOGIN = r"(?<=://)[^\s/'\"]+(?=@)"
_AWS_KEY_ID = r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
_QUERY_LOGIN = r"(?i)([?&](?:[a-z-]*token|[a-z_-]*key|auth|password|signature)=)[^&\s'\"]+"
_AWS_KEY_STARTS = ("AKIA", "ASIA")
_SHORTEST = 4


class Masker:
    """Replaces known secret values, logins in URLs and AWS key ids in any text."""

    def __init__(self, *sources: Mapping[str, str]) -> None:
        found = {
            spelling
            for source in sources
            for name, value in source.items()
            for spelling in _spellings(name, value)
            if len(spelling) >= _SHORTEST
        }
        # Longest first, so that no secret hides behind a shorter one it contains.
        self._values = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        if "://" in text or any(start in text for start in _AWS_KEY_STARTS):
            import re  # only a text that needs it pays for it

            text = re.sub(_AWS_KEY_ID, MASK, re.sub(_URL_LOGIN, MASK, text))
            text = re.sub(_QUERY_LOGIN, rf"\1{MASK}", text)
        return text


def _spellings(name: str, value: str) -> list[str]:
    """Every way a secret may show up: as sent, unquoted, on the command line, piece by piece."""
    secret = is_secret(name, value)
    whole = [value, as_text(value)] if secret else []
    try:
        if secret or value[:1] in ("{", "["):
            decoded = decode(value)
            whole += [*_leaves(decoded, secret), *([argument_text(decoded)] if secret else [])]
    except RecursionError:  # nested beyond sense: it is masked as it was sent
        return whole
    return whole


def _leaves(value: object, secret: bool) -> list[str]:
    if isinstance(value, dict):
        pairs = [(is_secret(str(k), argument_text(v)), v) for k, v in value.items()]
        return [leaf for inner, v in pairs for leaf in _leaves(v, secret or inner)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item, secret)]
    return [str(value)] if secret and isinstance(value, str) else []


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name holds a secret: api_key does, pad_token does not."""
    joined = "".join(c for c in name.lower() if c.isalnum())
    if name in _NOT_SECRET:
        return False
    if any(word in joined for word in _ALWAYS):
        return True
    if not any(word in joined for word in _WORDS):
        return False
    words = set(_words(name))
    return bool(words & _WORDS) and not words & _HARMLESS and not _is_plain(value)


def _is_plain(value: str) -> bool:
    """A number, a flag or a word of everyday language: masking it would only garble the log."""
    text = value.strip('"')
    is_number = len(text) <= _LONGEST_NUMBER and _NUMERIC.issuperset(text)
    if text.lower() in ("true", "false"):
        return True
    return is_number or (text.isalpha() and text.islower() and len(text) <= _LONGEST_WORD)


def _words(name: str) -> list[str]:
    """The words of api_key, API-KEY, apiKey and APIKey alike, in lower case."""
    spaced = ""
    for before, letter, after in zip(f" {name}", name, f"{name[1:]} ", strict=False):
        starts_word = letter.isupper() and (not before.isupper() or after.islower())
        spaced += f" {letter}" if starts_word or not letter.isalpha() else letter
    return "".join(c.lower() if c.isalpha() else " " for c in spaced).split()
