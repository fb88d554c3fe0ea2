"""Signatures, with botocore's own signer as the oracle."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from botocore import auth
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from stoker.platform.model.root import Credentials
from stoker.platform.model.signature import (
    UNSIGNED_PAYLOAD,
    Message,
    SignatureRefused,
    hash_payload,
    read_signature,
    require_signature,
)

KEYS = Credentials(access_key="AKEXAMPLE", secret_key="very/secret+key")
SIGNATURE = f"Signature={'0' * 64}"
BODY = b'{"a": 1}'
SIGNERS = {
    "sagemaker": SigV4Auth,
    "s3": S3SigV4Auth,
    "sagemaker presigned": SigV4QueryAuth,
    "s3 presigned": S3SigV4QueryAuth,
}
URLS = [
    "http://127.0.0.1:8000/",
    "http://127.0.0.1:8000/bucket/a%20b%2Bc%C3%BC%25?list-type=2&prefix=a%2Fb%20c&x",
    "http://127.0.0.1:8000/bucket//double/slash?b=2&a=1&a=0&c=%2B",
]


def signed(kind: str, url: str, more: dict[str, str] | None = None) -> Message:
    presigned = "presigned" in kind
    plain = {"X-Amz-Target": "A.B", "X-Odd": "  two   spaces ", **(more or {})}
    request = AWSRequest(
        "GET" if presigned else "PUT",
        url,
        headers={} if presigned else plain,
        data=b"" if presigned else BODY,
    )
    keys = BotoCredentials(KEYS.access_key, KEYS.secret_key)
    SIGNERS[kind](keys, kind.split()[0], "eu-west-1").add_auth(request)
    parts = urlsplit(request.url)
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Message(
        method=request.method,
        path=parts.path,
        query=parts.query,
        headers={"host": "127.0.0.1:8000", **headers},
    )


def check(message: Message, *, body: bytes = BODY, keys: Credentials = KEYS, now=None) -> None:
    signature = read_signature(message)
    hashed = hash_payload(b"" if signature.presigned else body)
    if signature.presigned and signature.service == "s3":
        hashed = UNSIGNED_PAYLOAD
    require_signature(message, signature, credentials=keys, payload_hash=hashed, now=now)


@pytest.mark.parametrize(
    ("kind", "url"),
    # A double slash is a path of its own with S3 only; elsewhere signers make one of it.
    [(k, url) for k in SIGNERS for url in URLS if k.startswith("s3") or "//double" not in url],
)
def test_what_botocore_signs_is_accepted(kind, url):
    message = signed(kind, url)
    check(message)
    assert read_signature(message).service == kind.split()[0]


@pytest.mark.parametrize("kind", SIGNERS)
@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({"method": "DELETE"}, "mismatch"),
        ({"path": "/other"}, "mismatch"),
        ({"query": "&extra=1"}, "mismatch"),
        ({"host": "example.org"}, "mismatch"),
        ({"secret": "guessed"}, "mismatch"),
        ({"access": "SOMEBODY"}, "unknown_key"),
        ({"later": timedelta(hours=2)}, "expired"),
        ({"later": timedelta(hours=-2)}, "expired"),
    ],
    ids=lambda value: str(value),
)
def test_whatever_was_changed_on_the_way_is_refused(kind, changed, refused):
    message = signed(kind, URLS[1])
    keys = Credentials(
        access_key=changed.get("access", KEYS.access_key),
        secret_key=changed.get("secret", KEYS.secret_key),
    )
    if "host" in changed:
        message = replace(message, headers={**message.headers, "host": changed["host"]})
    if "query" in changed:
        message = replace(message, query=message.query + changed["query"])
    for field in ("method", "path"):
        if field in changed:
            message = replace(message, **{field: changed[field]})
    now = datetime.now(UTC) + changed.get("later", timedelta())
    with pytest.raises(SignatureRefused) as caught:
        check(message, keys=keys, now=now)
    assert caught.value.kind == refused


def test_another_body_is_refused():
    with pytest.raises(SignatureRefused) as caught:
        check(signed("sagemaker", URLS[0]), body=b"{}")
    assert caught.value.kind == "mismatch"


def test_a_hash_that_the_request_states_does_not_stand_for_its_body():
    stated = hash_payload(BODY)
    message = signed("sagemaker", URLS[0], {"X-Amz-Content-SHA256": stated})
    assert "x-amz-content-sha256" in read_signature(message).signed_headers
    check(message)
    with pytest.raises(SignatureRefused, match="does not match"):
        check(message, body=b"{}")


def test_clients_may_sign_headers_that_botocore_does_not(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(auth, "SIGNED_HEADERS_BLACKLIST", [])
        message = signed("sagemaker", URLS[0], {"User-Agent": "aws-sdk-java"})
    assert "user-agent" in read_signature(message).signed_headers
    check(message)
    with pytest.raises(SignatureRefused, match="does not match"):
        check(replace(message, headers={**message.headers, "user-agent": "other"}))


@pytest.mark.parametrize("path", ["/#behind", "/bucket/key#behind"])
def test_a_path_of_which_only_a_part_is_signed_is_refused(path):
    message = signed("s3", f"http://127.0.0.1:8000{path.partition('#')[0]}")
    check(message)
    with pytest.raises(SignatureRefused) as caught:
        check(replace(message, path=path))
    assert caught.value.kind == "malformed"


def test_the_example_of_the_documentation_is_accepted():
    """From AWS's page "Create a signed AWS API request", so not botocore against itself."""
    scope = "AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request"
    message = Message(
        method="GET",
        path="/",
        query="Action=ListUsers&Version=2010-05-08",
        headers={
            "content-type": "application/x-www-form-urlencoded; charset=utf-8",
            "host": "iam.amazonaws.com",
            "x-amz-date": "20150830T123600Z",
            "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, "
            "SignedHeaders=content-type;host;x-amz-date, "
            "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        },
    )
    keys = Credentials(
        access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    )
    check(message, body=b"", keys=keys, now=datetime(2015, 8, 30, 12, 40, tzinfo=UTC))


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        (None, "missing"),
        ("Basic dXNlcjpwYXNz", "malformed"),
        (f"AWS4-HMAC-SHA256 Credential=K/1/r/s, SignedHeaders=host, {SIGNATURE}", "malformed"),
        (
            f"AWS4-HMAC-SHA256 Credential=K/1/r/s/aws4_request, SignedHeaders=date, {SIGNATURE}",
            "malformed",
        ),
    ],
)
def test_what_is_not_a_signature_is_told_apart(header, refused):
    headers = {} if header is None else {"authorization": header}
    message = Message(method="GET", path="/", query="", headers=headers)
    with pytest.raises(SignatureRefused) as caught:
        read_signature(message)
    assert caught.value.kind == refused
