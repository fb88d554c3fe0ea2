"""Conditions of requests: ETags, times and sizes that an object must or must not have."""

from __future__ import annotations

from collections.abc import Callable

from stoker.platform.s3.call import Call, http_date, parse_http_date
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.object_store import ObjectInfo

_NOT_MODIFIED = 304
Check = Callable[[ObjectInfo | None], None]


def matches(etags: str, info: ObjectInfo) -> bool:
    """Whether a header of ETags names this object's."""
    return any(text.strip().strip('"') in ("*", info.etag) for text in etags.split(","))


def check_read(call: Call, info: ObjectInfo) -> Response | None:
    """The answer 304, if the client has the object already.

    Raises:
        S3Fault: PreconditionFailed.
    """
    if_match, if_none = call.header("if-match"), call.header("if-none-match")
    since = parse_http_date(call.header("if-modified-since"))
    until = parse_http_date(call.header("if-unmodified-since"))
    # The order of RFC 9110: ETags decide where both they and times are given.
    if if_match:
        if not matches(if_match, info):
            raise S3Fault("PreconditionFailed")
    elif until is not None and info.modified > until:
        raise S3Fault("PreconditionFailed")
    is_newer = since is None or info.modified > since
    is_known = matches(if_none, info) if if_none else not is_newer
    if not is_known:
        return None
    headers = {"ETag": f'"{info.etag}"', "Last-Modified": http_date(info.modified)}
    return Response(_NOT_MODIFIED, headers)


def check_copy_source(call: Call, info: ObjectInfo) -> None:
    """
    Raises:
        S3Fault: PreconditionFailed.
    """
    prefix = "x-amz-copy-source-if-"
    if_match, if_none = call.header(f"{prefix}match"), call.header(f"{prefix}none-match")
    since = parse_http_date(call.header(f"{prefix}modified-since"))
    until = parse_http_date(call.header(f"{prefix}unmodified-since"))
    if (
        (if_match and not matches(if_match, info))
        or (if_none and matches(if_none, info))
        or (since is not None and not if_none and info.modified <= since)
        or (until is not None and not if_match and info.modified > until)
    ):
        raise S3Fault("PreconditionFailed")


def make_write_check(call: Call) -> Check | None:
    """What must hold when an object is written; None if nothing is asked."""
    if_match, if_none = call.header("if-match"), call.header("if-none-match")
    if not if_match and not if_none:
        return None

    def check(info: ObjectInfo | None) -> None:
        if if_match and info is None:
            raise S3Fault("NoSuchKey")
        if if_match and info is not None and not matches(if_match, info):
            raise S3Fault("PreconditionFailed")
        if if_none and info is not None and matches(if_none, info):
            raise S3Fault("PreconditionFailed")

    return check


def make_delete_check(etag: str, modified: float | None, size: str) -> Check | None:
    """What must hold when an object is removed; None if nothing is asked."""
    if not etag and modified is None and not size:
        return None

    def check(info: ObjectInfo | None) -> None:
        if info is None:  # there is nothing to remove
            return
        is_other = (
            (etag and not matches(etag, info))
            # HTTP's times have whole seconds.
            or (modified is not None and int(modified) != int(info.modified))
            or (size and size != str(info.size_bytes))
        )
        if is_other:
            raise S3Fault("PreconditionFailed")

    return check
