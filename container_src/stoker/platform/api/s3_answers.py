"""Where the embedded S3 server answers differently from AWS, and stock SDKs notice.

Pure functions over status, headers and small XML bodies; the proxy asks them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.sax.saxutils import escape

OK = 200
PARTIAL = 206
_ERRORS = 400
_CONFLICT = 409
_MESSAGES = {
    b"NoSuchKey": b"The specified key does not exist.",
    b"NoSuchUpload": b"The specified upload does not exist.",
}
_NOT_EMULATED = {
    *("acl", "attributes", "cors", "encryption", "legal-hold", "lifecycle", "logging", "policy"),
    *("notification", "object-lock", "ownershipControls", "publicAccessBlock", "replication"),
    *("retention", "tagging", "torrent", "website"),
}
EMPTY_ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'


def is_range(status: int, headers: Mapping[str, str]) -> bool:
    """A part of an object; rclone calls it 200 where AWS says 206."""
    return status in (OK, PARTIAL) and "Content-Range" in headers


def mended_header(name: str, *, part: bool) -> str | None:
    """The name under which a header goes on to the client; None if it does not.

    With a part of an object rclone sends the checksum of the whole, which SDKs then compare. The
    names of metadata come back capitalised, while AWS has them in lower case.
    """
    lower = name.lower()
    if part and lower.startswith(("x-amz-checksum-", "x-amz-sdk-checksum")):
        return None
    return lower if lower.startswith("x-amz-meta-") else name


def is_listing(method: str, path: str, query: str) -> bool:
    """A list of one bucket's objects."""
    alone = method == "GET" and path.strip("/") and "/" not in path.strip("/")
    return bool(alone) and not re.search(r"(^|&)(location|versioning|uploads)(&|=|$)", query)


def mended_listing(body: bytes, query: str) -> bytes:
    """A list as AWS writes it: ETags in quotes, and the number of keys even if there are none."""
    body = re.sub(rb"<ETag>([^<&\"]*)</ETag>", rb"<ETag>&quot;\1&quot;</ETag>", body)
    if "list-type=2" in query and b"<KeyCount>" not in body:
        body = body.replace(b"</ListBucketResult>", b"<KeyCount>0</KeyCount></ListBucketResult>")
    return body


def is_own_bucket_again(method: str, path: str, status: int, body: bytes) -> bool:
    """Making a bucket that is there already, which us-east-1 takes as done."""
    bucket_alone = "/" not in path.strip("/")
    return method == "PUT" and bucket_alone and status == _CONFLICT and b"BucketAlready" in body


def mended_error(body: bytes) -> bytes:
    """An error with the text AWS gives it; SDKs show `Unknown` without one."""
    code = re.search(rb"<Code>(\w+)</Code>", body)
    if code and code[1] in _MESSAGES and b"<Message>" not in body:
        message = b"<Message>%s</Message>" % _MESSAGES[code[1]]
        return body.replace(b"</Code>", b"</Code>" + message)
    return body


def is_error(status: int) -> bool:
    """Whether the answer is a refusal."""
    return status >= _ERRORS


def is_folder_marker(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """An empty object `folder/`: consoles and some file-system layers make them.

    rclone would write a file `folder`, and nothing could be put below it any more.
    """
    length = headers.get("x-amz-decoded-content-length", headers.get("content-length"))
    inside = "/" in path.strip("/")
    return method == "PUT" and inside and path.endswith("/") and length == "0"


def is_not_emulated(query: str) -> bool:
    """Sub-resources rclone does not know: it would answer with the object or the list instead."""
    return any(part.partition("=")[0] in _NOT_EMULATED for part in query.split("&"))


def make_error(code: str, message: str, resource: str, request_id: str) -> bytes:
    """A refusal in S3's own words."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{escape(message)}</Message>"
        f"<Resource>{escape(resource)}</Resource><RequestId>{request_id}</RequestId></Error>"
    ).encode()
