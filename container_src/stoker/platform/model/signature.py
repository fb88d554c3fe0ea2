"""AWS signatures: who sent a request, for which service, and is it unchanged?"""

from __future__ import annotations

import base64
import hashlib
import hmac
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import quote, unquote

from stoker.machine.signature import ALGORITHM, sign_text
from stoker.platform.model.root import Credentials

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_HEADER = re.compile(
    rf"{ALGORITHM} +Credential=(?P<credential>[^,\s]+),\s*SignedHeaders=(?P<headers>[^,\s]+),"
    r"\s*Signature=(?P<signature>[0-9a-f]{64})"
)
# How far two clocks may differ; AWS allows the same.
_SKEW = timedelta(minutes=15)
_LONGEST_EXPIRY = timedelta(days=7)

Kind = Literal["missing", "malformed", "unknown_key", "mismatch", "expired"]


class SignatureRefused(Exception):
    """The request is not signed, or not by this platform's keys."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """The part of an HTTP request that a signature covers, exactly as it was sent."""

    method: str
    path: str
    """Percent-encoded, without the query."""

    query: str
    """Percent-encoded, without the question mark."""

    headers: Mapping[str, str]
    """Names in lower case; several values of one name joined by commas."""

    def parameter(self, name: str) -> str | None:
        """One value of the query, decoded."""
        return next((value for key, value in split_query(self.query) if key == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What a request says about its own signature."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str
    presigned: bool

    @property
    def scope(self) -> str:
        """What the key was derived for."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


def read_signature(message: Message) -> Signature:
    """Find the signature in the header or, for a presigned address, in the query.

    Raises:
        SignatureRefused: there is none, or it is not of version 4.
    """
    written = message.headers.get("authorization")
    if written is not None:
        found = _HEADER.fullmatch(written.strip())
        if found is None:
            raise SignatureRefused(
                "malformed", f"Authorization header is not a complete {ALGORITHM} signature."
            )
        return _signature(found["credential"], found["headers"], found["signature"], False)
    if message.parameter("X-Amz-Algorithm") == ALGORITHM:
        return _signature(
            message.parameter("X-Amz-Credential") or "",
            message.parameter("X-Amz-SignedHeaders") or "",
            message.parameter("X-Amz-Signature") or "",
            True,
        )
    raise SignatureRefused("missing", "Missing Authentication Token: the request is not signed.")


def require_signature(
    message: Message,
    signature: Signature,
    *,
    credentials: Credentials,
    payload_hash: str,
    now: datetime | None = None,
) -> None:
    """Check that the request was signed with the platform's keys, not long ago, and is untouched.

    Args:
        message: the request.
        signature: what it says about itself.
        credentials: the platform's keys.
        payload_hash: SHA-256 of the body in hexadecimal, or what stands for it with S3.
        now: the current time.

    Raises:
        SignatureRefused: any of it does not hold.
    """
    if not hmac.compare_digest(_bytes(signature.access_key), credentials.access_key.encode()):
        raise SignatureRefused(
            "unknown_key",
            "The security token included in the request is invalid: these are not the keys of"
            " this platform. `stoker local env` prints them.",
        )
    stamp = _stamp(message, signature)
    _require_recent(message, signature, stamp, now or datetime.now(UTC))
    expected = _expected(message, signature, stamp, credentials, payload_hash)
    if not hmac.compare_digest(expected.encode(), _bytes(signature.signature)):
        raise SignatureRefused(
            "mismatch",
            "The request signature we calculated does not match the signature you provided."
            " Check your AWS Secret Access Key and signing method.",
        )


def _bytes(text: str) -> bytes:
    # A header may hold any bytes, which are not valid UTF-8 then.
    return text.encode("utf-8", "surrogateescape")


def hash_payload(body: bytes) -> str:
    """A body as it goes into a signature."""
    return hashlib.sha256(body).hexdigest()


def split_query(query: str) -> list[tuple[str, str]]:
    """The parameters of a query, decoded, in their order."""
    split = (part.partition("=") for part in query.split("&") if part)
    # Not parse_qsl: a plus sign in a signed address is a plus sign.
    return [(unquote(key), unquote(value)) for key, _, value in split]


def _signature(credential: str, headers: str, signature: str, presigned: bool) -> Signature:
    parts = credential.split("/")
    signed = tuple(headers.lower().split(";"))
    if len(parts) < 5 or parts[-1] != "aws4_request" or "host" not in signed:
        raise SignatureRefused(
            "malformed",
            f"Credential '{credential}' must be KEY/DATE/REGION/SERVICE/aws4_request, and the"
            " header Host must be signed.",
        )
    key, (date, region, service) = "/".join(parts[:-4]), parts[-4:-1]
    return Signature(
        access_key=key,
        date=date,
        region=region,
        service=service,
        signed_headers=signed,
        signature=signature,
        presigned=presigned,
    )


def _stamp(message: Message, signature: Signature) -> str:
    if signature.presigned:
        return message.parameter("X-Amz-Date") or ""
    return message.headers.get("x-amz-date", "")


def _require_recent(message: Message, signature: Signature, stamp: str, now: datetime) -> None:
    try:
        signed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        valid = _SKEW
        if signature.presigned:
            valid = timedelta(seconds=int(message.parameter("X-Amz-Expires") or "0"))
    except (ValueError, OverflowError) as error:
        raise SignatureRefused(
            "malformed", f"X-Amz-Date or X-Amz-Expires is not usable: {stamp!r}."
        ) from error
    # The key is derived for the day of the scope: a stamp of another day was never signed with it.
    if not stamp.startswith(signature.date) or valid > _LONGEST_EXPIRY:
        raise SignatureRefused("malformed", "The date of the signature does not fit its scope.")
    if signed - _SKEW > now or signed + valid < now:
        raise SignatureRefused(
            "expired", f"Signature expired: it was made at {stamp}, now it is {now:%Y%m%dT%H%M%SZ}"
        )


def _expected(
    message: Message, signature: Signature, stamp: str, credentials: Credentials, payload_hash: str
) -> str:
    """The signature that every stock client would make of the same request."""
    if "#" in message.path or not message.path.startswith("/"):
        raise SignatureRefused("malformed", f"{message.path!r} is not the path of an address.")
    # Runs of blanks count as one, as in AWS's canonical form.
    headers = "".join(
        f"{name}:{' '.join(message.headers.get(name, '').split())}\n"
        for name in signature.signed_headers
    )
    canonical = (
        message.method,
        _canonical_path(message.path, signature.service),
        _canonical_query(message.query),
        headers,
        ";".join(signature.signed_headers),
        # The hash of the body that came, whatever the request says about it.
        payload_hash,
    )
    hashed = hash_payload("\n".join(canonical).encode("utf-8", "surrogateescape"))
    return sign(credentials, signature, f"{ALGORITHM}\n{stamp}\n{signature.scope}\n{hashed}")


def sign(credentials: Credentials, signature: Signature, text: str) -> str:
    """The signature of a text for the scope of another signature."""
    return sign_text(text, credentials.secret_key, signature.scope)


def _canonical_path(path: str, service: str) -> str:
    if service == "s3":  # signed as it is sent
        return path
    # Every other service makes it simple and encodes it once more.
    simple = posixpath.normpath(path).replace("//", "/")
    if path.endswith("/") and simple != "/":
        simple += "/"
    return quote(simple, safe="/~")


def _canonical_query(query: str) -> str:
    if not query:
        return ""
    pairs = [
        (quote(key, safe="-_.~"), quote(value, safe="-_.~"))
        for key, value in split_query(query)
        if key != "X-Amz-Signature"
    ]
    return "&".join(f"{key}={value}" for key, value in sorted(pairs))


_OWN_V2 = ("AWSAccessKeyId", "Expires", "Signature")
# The parameters that version 2 signs; the others are not part of the text.
_SUBRESOURCES = {
    *("acl", "cors", "delete", "lifecycle", "location", "logging", "notification", "partNumber"),
    *("policy", "requestPayment", "tagging", "torrent", "uploadId", "uploads", "versionId"),
    *("versioning", "versions", "website", "response-cache-control", "response-content-type"),
    *("response-content-disposition", "response-content-encoding", "response-content-language"),
    "response-expires",
}


def is_presigned_v2(message: Message) -> bool:
    """Whether an address is signed in the older way, which is boto3's default for them."""
    return all(message.parameter(name) is not None for name in _OWN_V2)


def require_signature_v2(
    message: Message, credentials: Credentials, now: datetime | None = None
) -> None:
    """Check an address that is signed in the older way.

    Raises:
        SignatureRefused: it is not ours, too old, or was changed.
    """
    now = now or datetime.now(UTC)
    if message.parameter("AWSAccessKeyId") != credentials.access_key:
        raise SignatureRefused("unknown_key", "The AWS access key Id you provided is not ours.")
    expires = message.parameter("Expires") or ""
    if not re.fullmatch("[0-9]{1,18}", expires) or int(expires) < now.timestamp():
        raise SignatureRefused("expired", f"Request has expired: it was valid until {expires}.")
    given = _bytes(message.parameter("Signature") or "")
    # botocore sends `/bucket`, but signs `/bucket/`.
    paths = (message.path, f"{message.path}/") if message.path.count("/") == 1 else (message.path,)
    expected = [_expected_v2(message, path, credentials).encode() for path in paths]
    if not any(hmac.compare_digest(each, given) for each in expected):
        raise SignatureRefused("mismatch", "The signature does not match the address.")


def _expected_v2(message: Message, path: str, credentials: Credentials) -> str:
    custom = sorted(
        f"{name}:{' '.join(value.split())}"
        for name, value in message.headers.items()
        if name.startswith("x-amz-")
    )
    resources = sorted(
        f"{key}={value}" if value else key
        for key, value in split_query(message.query)
        if key in _SUBRESOURCES
    )
    text = (
        message.method,
        message.headers.get("content-md5", ""),
        message.headers.get("content-type", ""),
        message.parameter("Expires") or "",
        *custom,
        path + (f"?{'&'.join(resources)}" if resources else ""),
    )
    return sign_v2(credentials, "\n".join(text))


def sign_v2(credentials: Credentials, text: str) -> str:
    """The older signature of a text."""
    digest = hmac.digest(credentials.secret_key.encode(), _bytes(text), "sha1")
    return base64.b64encode(digest).decode()
