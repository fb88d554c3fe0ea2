"""Keeping secrets out of logs and failure reasons."""

from __future__ import annotations

from stoker.contract.hyperparameters import argument_text, as_text, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MASK = "******"

# Anywhere in a name, in one word or several: these are secrets whatever they hold.
_ALWAYS = {"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey"}
_ALWAYS |= {"authtoken", "accesstoken", "credential"}
_WORDS = {"pass", "pw", "pwd", "creds", "auth", "token", "tokens", "key", "keys", "private", "pat"}
_WORDS |= {"bearer", "cookie", "cookies", "dsn", "jwt", "sas", "session", "webhook", "webhooks"}
_WORDS |= {"authorization", "otp", "pem", "signature"}
# Words that make a harmless one of `key` and `token`: pad_token, max_tokens, label_key.
_HARMLESS = {"pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "start", "end", "stop"}
_HARMLESS |= {"max", "min", "num", "new", "label", "image", "text", "sort", "primary", "target"}
_NOT_SECRET = {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}
_NUMERIC = frozenset("0123456789+-.eE")
_LONGEST_NUMBER = 12
_LONGEST_WORD = 7
# Folders that a variable such as SESSION_DIR may name; no secret begins like that.
_FOLDERS = ("/opt/", "/tmp", "/home/", "/root", "/run/", "/var/", "/etc/", "/mnt/", "/usr/")  # noqa: S108 - only compared
_URL_LOGIN = r"(?<=://)[^\s/'\"]+(?=@)"
# Of ?token=…, &X-Amz-Signature=…, private_token=… and their kind: the value.
_IN_QUERY = (
    r"(?i)(?<=[?&;#])([\w.-]{0,80}?(?:token|key|keyid|secret|signature|credential|password|"
    r"passwd|pwd|auth|authorization|jwt|session|sessionid|sig|sas|pat)=)([^&;\s'\"<>)]+)"
)
_IN_HEADER = (
    r"(?i)\b((?:bearer|basic|token) {1,9}|(?:cookie|api-key|access-key|token): {0,9})"
    r"([\w.~+/=-]{16,})"
)
# Of texts and JSON objects: client_secret=…, "password": "…".
_IN_PAIR = (
    r"(?i)((?:secret|secret_access_key|password|passwd|api_key|private_key|access_token)"
    r"(?:=|[\"'] ?: ?[\"']))(?=[^\s\"'&,;]{0,99}\d)([^\s\"'&,;<>)(\[\]]{8,})"
)
# Every repetition before something that must follow has a bound: a hostile text costs no time.
# Values that tell by their form: of AWS, GitHub, GitLab, Hugging Face, Slack, OpenAI, PyPI, JWT;
# Stripe, Google, npm, Docker, SendGrid.
_SHAPES = (
    r"(?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[A-Z0-9]{16}\b|gh[a-z]_[A-Za-z0-9]{16,}|"
    r"github_pat_\w{16,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|xox[a-z]-[\w-]{10,}|"
    r"sk-(?=[\w-]{0,99}\d)[\w-]{16,}|pypi-[\w-]{32,}|eyJ[\w-]{8,999}\.[\w-]+(?:\.[\w-]*)?|"
    r"xapp-[\w-]{10,}|[sr]k_(?:live|test)_\w{16,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|"
    r"npm_[A-Za-z0-9]{30,}|dckr_pat_[\w-]{16,}|SG\.[\w-]{16,99}\.[\w-]{16,})"
)
_WEBHOOK = r"(?<=hooks\.slack\.com/)[\w/]+|(?<=/api/webhooks/)[\w/-]+|(?<=/webhook/)[\w/@-]{16,}"
# Only a text with one of these is searched by regular expressions.
_SIGNS = (
    *("://", "?", "&", "AKIA", "ASIA", "gh", "glpat-", "hf_", "xox", "sk-", "pypi-", "eyJ"),
    *("earer ", "asic ", "oken ", "ookie:", "key:", "Key:", "oken:", "k_live_", "k_test_", "AIza"),
    *("ya29.", "npm_", "dckr_", "SG.", "xapp-", "secret", "SECRET", "passw", "PASSW", "api_key"),
    *("API_KEY", "private_key", "access_token"),
)
# A shorter value is part of too many innocent words.
_SHORTEST = 4
_SHORTEST_LINE = 8
"""Of a secret of several lines, which a log shows one by one."""


class Masker:
    """Replaces known secret values, those in addresses, and what looks like a token."""

    def __init__(self, *sources: Mapping[str, str]) -> None:
        self._values: list[str] = []
        named = [pair for source in sources for pair in source.items()]
        self._add(spelling for name, value in named for spelling in _spellings(name, value))
        for _, value in named:
            if "://" in value:
                self.learn(value)

    def learn(self, text: str) -> None:
        """Notes the secrets in the addresses of a text: they may show up without them."""
        import re  # few jobs have any

        logins = [login.rpartition(":")[2] for login in re.findall(_URL_LOGIN, text)]
        values = [value for _, value in re.findall(_IN_QUERY, text)]
        self._add(value for value in (*logins, *values) if not _is_plain(value))

    def _add(self, secrets: Iterable[str]) -> None:
        found = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # Longest first, so that no secret hides behind a shorter one it contains.
        self._values = sorted({*self._values, *found}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        if any(sign in text for sign in _SIGNS):
            import re  # only a text that needs it pays for it

            for pattern in (_URL_LOGIN, _SHAPES, _WEBHOOK):
                text = re.sub(pattern, MASK, text)
            for pattern in (_IN_QUERY, _IN_HEADER, _IN_PAIR):
                text = re.sub(pattern, rf"\1{MASK}", text)
        return text


def _spellings(name: str, value: str) -> list[str]:
    """Every way a secret may show up: as sent, unquoted, on the command line, piece by piece."""
    secret = is_secret(name, value)
    whole = [value, as_text(value)] if secret else []
    if secret and "\n" in value:  # a private key, of which the first and last line are public
        lines = [line.strip() for line in value.splitlines() if not line.startswith("-----")]
        whole += [line for line in lines if len(line) >= _SHORTEST_LINE]
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
    """A number, a flag, a word or a folder: masking it would only garble the log."""
    text = value.strip('"')
    if text.startswith(_FOLDERS):
        return True
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
