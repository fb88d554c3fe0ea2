"""Signature version 4 of AWS, by the standard library: botocore takes a tenth of a second to load.

For requests without a query, which are all that Stoker signs itself.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

PAYLOAD_HASH = "X-Amz-Content-Sha256"
ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """Who signs."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(default="", repr=False)
    """Of temporary keys."""


def sign(
    method: str,
    host: str,
    path: str,
    headers: Mapping[str, str],
    *,
    keys: Keys,
    service: str,
    region: str,
) -> dict[str, str]:
    """The headers of a request with those that sign it.

    Args:
        method: such as PUT.
        host: with the port, unless it is the usual one.
        path: percent-encoded, as it is sent.
        headers: with PAYLOAD_HASH; those of X-Amz are signed.
        keys: who signs.
        service: as its scope is called: s3, sagemaker.
        region: of the service.
    """
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    token = {"X-Amz-Security-Token": keys.token} if keys.token else {}
    all_headers = {**headers, **token, "Host": host, "X-Amz-Date": now}
    signed = {
        name.lower(): text
        for name, text in all_headers.items()
        if name == "Host" or name.startswith("X-Amz-")
    }
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}\n" for name in sorted(signed)]
    canonical = [method, path, "", "".join(lines), names, headers[PAYLOAD_HASH]]
    scope = f"{now[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    signature = sign_text(f"{ALGORITHM}\n{now}\n{scope}\n{digest}", keys.secret_key, scope)
    authorization = (
        f"{ALGORITHM} Credential={keys.access_key}/{scope}, SignedHeaders={names}, "
        f"Signature={signature}"
    )
    return {**all_headers, "Authorization": authorization}


def sign_text(text: str, secret_key: str, scope: str) -> str:
    """The signature of a text; the scope is DATE/REGION/SERVICE/aws4_request."""
    return hmac.digest(_make_key(secret_key, scope), _encode(text), "sha256").hex()


@lru_cache(maxsize=64)
def _make_key(secret_key: str, scope: str) -> bytes:
    # AWS's derivation: each part of the scope by the key before.
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, _encode(part), "sha256")
    return key


def _encode(text: str) -> bytes:
    # Of requests that others have signed, whatever bytes their headers had.
    return text.encode("utf-8", "surrogateescape")
