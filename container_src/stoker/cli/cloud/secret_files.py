"""Files of the source that look like secrets: many users may read the bucket."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

from stoker.cli.client.source import Source
from stoker.machine.failures import UsageRefused

_NAMES = (
    *(".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "id_rsa*", "id_dsa*"),
    *("id_ecdsa*", "id_ed25519*", ".netrc", ".pypirc", ".npmrc", "credentials", "*.kdbx"),
    *("kaggle.json", "service-account*.json", "*-credentials.json", ".git-credentials"),
)
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")
_KINDS = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "an access key of AWS": rb"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z2-7]{16}(?![A-Z0-9])",
    "a token of Hugging Face": rb"(?<![A-Za-z0-9])hf_[A-Za-z]{34}(?![A-Za-z0-9])",
    "a token of GitHub": rb"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{82})(?!\w)",
}
_CONTENT = re.compile(b"|".join(b"(%s)" % pattern for pattern in _KINDS.values()))
# AWS's own documentation uses it everywhere.
_EXAMPLE = b"AKIAIOSFODNN7EXAMPLE"
_MOST_BYTES = 1 << 20
_MOST_NAMED = 5


def require_no_secrets(source: Source) -> None:
    """
    Raises:
        UsageRefused: files look like secrets; names them.
    """
    found = list(_find(source))
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise UsageRefused(
            f"the code has files that look like secrets: {', '.join(found[:_MOST_NAMED])}{more}",
            fix="add them to .stokerignore, or send them: --allow-secrets",
        )


def _find(source: Source) -> Iterator[str]:
    for name in source.names:
        last = name.rpartition("/")[2]
        if any(fnmatch.fnmatch(last, pattern) for pattern in _HARMLESS):
            continue
        if any(fnmatch.fnmatch(last, pattern) for pattern in _NAMES):
            yield name
        elif why := _look_inside(source.folder / name):
            yield f"{name} ({why})"


def _look_inside(file: Path) -> str:
    # Keys are in small files; larger ones are data.
    if not file.is_file() or file.stat().st_size > _MOST_BYTES:
        return ""
    for match in _CONTENT.finditer(file.read_bytes()):
        if match[0] != _EXAMPLE:
            return list(_KINDS)[(match.lastindex or 1) - 1]
    return ""
