"""Operations on buckets: making, listing, removing many objects at once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from urllib.parse import quote_from_bytes

from stoker.platform.model.root import REGION
from stoker.platform.s3.acl_calls import OWNER, OWNERSHIP, read_acl, read_ownership
from stoker.platform.s3.call import (
    Call,
    answer_xml,
    iso_date,
    parse_http_date,
    require_key,
)
from stoker.platform.s3.conditions import make_delete_check
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.folder_keys import Page
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.object_index import Details
from stoker.platform.s3.object_store import ObjectInfo
from stoker.platform.s3.xml_text import (
    Element,
    document,
    element,
    escape_text,
    leaf,
    leaves,
    parse,
)

LOCATION = "location"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_MOST_KEYS = 1000  # S3's limit of one page
_MOST_DELETED = 1000  # S3's limit of one request
_MOST_BUCKETS = 10_000  # S3's limit of one page
_NO_CONTENT = 204


def list_buckets(call: Call) -> Response:
    """ListBuckets."""
    prefix, token = call.params.get("prefix", ""), call.params.get("continuation-token", "")
    limit = call.number("max-buckets", _MOST_BUCKETS)
    after = _read_token(token).decode() if token else ""
    names = [
        name for name in call.store.list_buckets() if name.startswith(prefix) and name > after
    ]
    shown = names[:limit]
    each = (
        element("Bucket", leaves([("Name", name), ("CreationDate", _made(call, name))]))
        for name in shown
    )
    more = _make_token(shown[-1].encode()) if len(names) > limit and shown else None
    content = [element("Owner", OWNER), element("Buckets", *each), leaf("Prefix", prefix or None)]
    content.append(leaf("ContinuationToken", more))
    return answer_xml(document("ListAllMyBucketsResult", *content))


def _made(call: Call, name: str) -> str:
    return iso_date(call.store.read_bucket(name)[0])


def make_bucket(call: Call) -> Response:
    """CreateBucket; again, it does nothing, as in us-east-1."""
    name = call.bucket
    # A bucket's name may become a part of a host's, where these forms are not valid.
    if not _NAME.fullmatch(name) or ".." in name or ".-" in name or "-." in name:
        raise S3Fault("InvalidBucketName")
    if _ADDRESS.fullmatch(name):
        raise S3Fault("InvalidBucketName")
    settings = {}
    if body := call.read_small():
        region = parse(body, "CreateBucketConfiguration").findtext("LocationConstraint")
        if region and region != REGION:
            settings[LOCATION] = region
    if ownership := read_ownership(call):
        settings[OWNERSHIP] = ownership
    acl = read_acl(call)
    if not call.store.has_bucket(name):
        call.store.make_bucket(name)
        call.store.change_bucket(name, Details(acl=acl, headers=settings))
    return Response(200, {"Location": f"/{name}"})


def head_bucket(call: Call) -> Response:
    """HeadBucket."""
    return Response(200, {"x-amz-bucket-region": _find_region(call) or REGION})


def delete_bucket(call: Call) -> Response:
    """DeleteBucket."""
    if not call.store.remove_bucket(call.bucket):
        raise S3Fault("BucketNotEmpty")
    return Response(_NO_CONTENT)


def get_location(call: Call) -> Response:
    """GetBucketLocation: us-east-1 has none."""
    return answer_xml(document("LocationConstraint", _find_region(call)))


def _find_region(call: Call) -> str:
    """The region that the bucket was made for; empty for us-east-1."""
    return call.store.read_bucket(call.bucket)[1].headers.get(LOCATION, "")


def get_versioning(call: Call) -> Response:
    """GetBucketVersioning: never turned on."""
    call.store.bucket_dir(call.bucket)
    return answer_xml(document("VersioningConfiguration"))


def list_objects(call: Call) -> Response:
    """ListObjects, version 1."""
    marker, prefix = call.params.get("marker", ""), call.params.get("prefix", "")
    page, shown = _read_page(call, marker.encode(errors="surrogateescape"))
    delimiter = call.params.get("delimiter")
    head = [
        ("Name", call.bucket),
        # Clients do not decode this one: only what XML cannot hold is encoded.
        ("Prefix", prefix if prefix.isprintable() else _text(call, prefix)),
        ("Marker", _text(call, marker)),
        ("MaxKeys", _limit(call)),
        ("Delimiter", _text(call, delimiter) if delimiter else None),
        ("EncodingType", call.params.get("encoding-type")),
        ("IsTruncated", page.next_after is not None),
    ]
    after = page.next_after
    next_marker = leaf("NextMarker", key_text(call, after)) if after is not None else ""
    objects = _make_objects(call, shown, "Contents", with_owner=True)
    prefixes = _make_prefixes(call, page)
    return answer_xml(document("ListBucketResult", leaves(head), next_marker, objects, prefixes))


def list_objects_v2(call: Call) -> Response:
    """ListObjectsV2."""
    token, start = call.params.get("continuation-token"), call.params.get("start-after", "")
    after = _read_token(token) if token else start.encode(errors="surrogateescape")
    page, shown = _read_page(call, after)
    delimiter = call.params.get("delimiter")
    more = page.next_after
    head = [
        ("Name", call.bucket),
        ("Prefix", _text(call, call.params.get("prefix", ""))),
        ("StartAfter", _text(call, start) if "start-after" in call.params else None),
        ("KeyCount", len(shown) + len(page.prefixes)),
        ("MaxKeys", _limit(call)),
        ("Delimiter", _text(call, delimiter) if delimiter else None),
        ("EncodingType", call.params.get("encoding-type")),
        ("IsTruncated", more is not None),
        ("ContinuationToken", token),
        ("NextContinuationToken", _make_token(more) if more is not None else None),
    ]
    with_owner = call.params.get("fetch-owner", "").lower() == "true"
    objects = _make_objects(call, shown, "Contents", with_owner=with_owner)
    return answer_xml(
        document("ListBucketResult", leaves(head), objects, _make_prefixes(call, page))
    )


def list_versions(call: Call) -> Response:
    """ListObjectVersions: each object has one version, `null`."""
    marker = call.params.get("key-marker", "")
    page, shown = _read_page(call, marker.encode(errors="surrogateescape"))
    more = page.next_after
    head = [
        ("Name", call.bucket),
        ("Prefix", _text(call, call.params.get("prefix", ""))),
        ("KeyMarker", _text(call, marker)),
        ("VersionIdMarker", ""),
        ("NextKeyMarker", key_text(call, more) if more is not None else None),
        ("NextVersionIdMarker", "null" if more is not None else None),
        ("MaxKeys", _limit(call)),
        ("EncodingType", call.params.get("encoding-type")),
        ("IsTruncated", more is not None),
    ]
    objects = _make_objects(call, shown, "Version", with_owner=True)
    return answer_xml(
        document("ListVersionsResult", leaves(head), objects, _make_prefixes(call, page))
    )


def _limit(call: Call) -> int:
    return min(call.number("max-keys", _MOST_KEYS), _MOST_KEYS)


def _read_page(call: Call, after: bytes) -> tuple[Page, list[ObjectInfo]]:
    page = call.store.list_page(
        call.bucket,
        prefix=call.params.get("prefix", "").encode(errors="surrogateescape"),
        delimiter=call.params.get("delimiter", "").encode(errors="surrogateescape"),
        after=after,
        limit=_limit(call),
    )
    return page, list(call.store.read_infos(call.bucket, page))


def _make_objects(call: Call, shown: Iterable[ObjectInfo], name: str, *, with_owner: bool) -> str:
    # One text for each object: a list of 100,000 must take less than a second here.
    version = "<VersionId>null</VersionId><IsLatest>true</IsLatest>" if name == "Version" else ""
    owner = element("Owner", OWNER) if with_owner else ""
    encode = partial(key_text, call)
    dates = _Dates()
    return "".join(
        f"<{name}><Key>{escape_text(encode(info.key))}</Key>{version}"
        f"<LastModified>{dates[int(info.modified)]}</LastModified>"
        f"<ETag>&quot;{info.etag}&quot;</ETag><Size>{info.size_bytes}</Size>{owner}"
        f"{_extra(info)}</{name}>"
        for info in shown
    )


def _extra(info: ObjectInfo) -> str:
    if info.details_json == "{}":
        return "<StorageClass>STANDARD</StorageClass>"
    details = info.details
    sums = [("ChecksumAlgorithm", name.upper()) for name in details.checksums]
    kind = (details.checksum_type or "FULL_OBJECT") if sums else None
    storage_class = details.headers.get("x-amz-storage-class", "STANDARD")
    return leaves([*sums, ("ChecksumType", kind), ("StorageClass", storage_class)])


class _Dates(dict[int, str]):
    """Times as text; many objects have the same."""

    def __missing__(self, seconds: int) -> str:
        self[seconds] = iso_date(seconds)
        return self[seconds]


def _make_prefixes(call: Call, page: Page) -> str:
    return "".join(
        element("CommonPrefixes", leaf("Prefix", key_text(call, each))) for each in page.prefixes
    )


def _text(call: Call, text: str) -> str:
    return key_text(call, text.encode(errors="surrogateescape"))


def key_text(call: Call, key: bytes) -> str:
    if call.params.get("encoding-type") == "url":
        return quote_from_bytes(key, safe="/-_.~")
    return key.decode(errors="replace")


def _make_token(after: bytes) -> str:
    return base64.urlsafe_b64encode(b"1" + after).decode()


def _read_token(token: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(token)[1:]
    except (binascii.Error, ValueError) as error:
        raise S3Fault("InvalidArgument", "The continuation token is incorrect.") from error


# ---- DeleteObjects ----


def delete_objects(call: Call) -> Response:
    """DeleteObjects."""
    body = call.read_small()
    if given := call.header("content-md5"):
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        if base64.b64encode(digest).decode() != given:
            raise S3Fault("BadDigest")
    root = parse(body, "Delete")
    asked = root.findall("Object")
    if not 0 < len(asked) <= _MOST_DELETED:
        raise S3Fault("MalformedXML")
    call.store.bucket_dir(call.bucket)
    is_quiet = (root.findtext("Quiet") or "").strip().lower() == "true"
    results = [_delete_one(call, each) for each in asked]
    shown = [text for text, is_error in results if is_error or not is_quiet]
    return answer_xml(document("DeleteResult", *shown))


def _delete_one(call: Call, asked: Element) -> tuple[str, bool]:
    key = asked.findtext("Key") or ""
    try:
        if asked.findtext("VersionId") not in (None, "", "null"):
            raise S3Fault("NoSuchVersion", "The specified version does not exist.")
        modified = _parse_time(asked.findtext("LastModifiedTime") or "")
        size = (asked.findtext("Size") or "").strip()
        check = make_delete_check(asked.findtext("ETag") or "", modified, size)
        require_key(key.encode())
        call.store.remove(call.bucket, key.encode(), check)
    except S3Fault as fault:
        fields = [("Key", key), ("Code", fault.code), ("Message", fault.message)]
        return element("Error", leaves(fields)), True
    return element("Deleted", leaf("Key", key)), False


def _parse_time(text: str) -> float | None:
    readers: tuple[Callable[[str], float | None], ...] = (
        lambda t: datetime.fromisoformat(t).timestamp(),
        parse_http_date,
    )
    for read in readers:
        try:
            if text and (found := read(text.strip())) is not None:
                return found
        except (ValueError, OverflowError):
            continue
    return None
