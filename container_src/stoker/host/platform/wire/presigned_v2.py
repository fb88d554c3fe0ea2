"""Presigned S3 addresses of the old kind (signature version 2), which boto3 makes by default.

The embedded S3 server knows version 4 only: such an address is checked here and signed anew.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import replace
from datetime import UTC, datetime

from stoker.host.platform.root import REGION, Credentials
from stoker.host.platform.wire.signature import (
    UNSIGNED_PAYLOAD,
    Message,
    SignatureRefused,
    sign_header,
    split_query,
)

_OWN = ("AWSAccessKeyId", "Expires", "Signature")
# Parameters that are part of what is signed; all others are not.
_SIGNED = {
    *("acl", "cors", "delete", "lifecycle", "location", "logging", "notification", "partNumber"),
    *("policy", "requestPayment", "restore", "tagging", "torrent", "uploadId", "uploads"),
    *("versionId", "versioning", "versions", "website", "response-cache-control"),
    *("response-content-disposition", "response-content-encoding", "response-content-language"),
    *("response-content-type", "response-expires"),
}


def is_presigned_v2(message: Message) -> bool:
    """Whether an address is of this kind."""
    return all(message.parameter(name) is not None for name in _OWN)


def signed_anew(
    message: Message, credentials: Credentials, now: datetime | None = None
) -> Message:
    """The same request with a signature of version 4 in its headers.

    Raises:
        SignatureRefused: it is not ours, too old, or was changed.
    """
    now = now or datetime.now(UTC)
    if message.parameter("AWSAccessKeyId") != credentials.access_key:
        raise SignatureRefused("unknown_key", "The AWS access key Id you provided is not ours.")
    expires = message.parameter("Expires") or ""
    if not expires.isdecimal() or int(expires) < now.timestamp():
        raise SignatureRefused("expired", f"Request has expired: it was valid until {expires}.")
    expected = hmac.digest(credentials.secret_key.encode(), _text(message).encode(), "sha1")
    given = message.parameter("Signature") or ""
    if not hmac.compare_digest(base64.b64encode(expected), given.encode()):
        raise SignatureRefused("mismatch", "The signature does not match the address.")
    return _signed(message, credentials, now)


def _signed(message: Message, credentials: Credentials, now: datetime) -> Message:
    kept = [part for part in message.query.split("&") if part.partition("=")[0] not in _OWN]
    covered = {
        **{k: v for k, v in message.headers.items() if k == "host" or k.startswith("x-amz-")},
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
        "x-amz-content-sha256": UNSIGNED_PAYLOAD,
    }
    bare = replace(message, query="&".join(kept), headers=covered)
    header = sign_header(
        bare,
        credentials=credentials,
        region=REGION,
        service="s3",
        payload_hash=UNSIGNED_PAYLOAD,
    )
    return replace(bare, headers={**message.headers, **covered, "authorization": header})


def _text(message: Message) -> str:
    amazon = sorted((k, v) for k, v in message.headers.items() if k.startswith("x-amz-"))
    asked = sorted(pair for pair in split_query(message.query) if pair[0] in _SIGNED)
    resource = "&".join(f"{key}={value}" if value else key for key, value in asked)
    return "\n".join(
        (
            message.method,
            message.headers.get("content-md5", ""),
            message.headers.get("content-type", ""),
            message.parameter("Expires") or "",
            *(f"{key}:{value.strip()}" for key, value in amazon),
            message.path + (f"?{resource}" if resource else ""),
        )
    )
