"""Tags of objects and of buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stoker.platform.s3.call import Call, answer_xml
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.xml_text import document, element, leaves, parse

# S3's limits.
MOST_OBJECT_TAGS = 10
_MOST_BUCKET_TAGS = 50  # S3's limit
_NO_CONTENT = 204


def get_tags(call: Call) -> Response:
    """GetObjectTagging."""
    return answer_xml(_make_tags(call.find().details.tags))


def put_tags(call: Call) -> Response:
    """PutObjectTagging."""
    _store_tags(call, read_tags(call.read_small()))
    return Response(200)


def delete_tags(call: Call) -> Response:
    """DeleteObjectTagging."""
    _store_tags(call, {})
    return Response(_NO_CONTENT)


def _store_tags(call: Call, tags: Mapping[str, str]) -> None:
    with call.store.committing:
        info = call.find()
        call.store.change_details(call.bucket, info, replace(info.details, tags=tags))


def get_bucket_tags(call: Call) -> Response:
    """GetBucketTagging."""
    tags = call.store.read_bucket(call.bucket)[1].tags
    if not tags:
        raise S3Fault("NoSuchTagSet")
    return answer_xml(_make_tags(tags))


def put_bucket_tags(call: Call) -> Response:
    """PutBucketTagging."""
    return _store_bucket_tags(call, read_tags(call.read_small(), most=_MOST_BUCKET_TAGS))


def delete_bucket_tags(call: Call) -> Response:
    """DeleteBucketTagging."""
    return _store_bucket_tags(call, {})


def _store_bucket_tags(call: Call, tags: dict[str, str]) -> Response:
    details = call.store.read_bucket(call.bucket)[1]
    call.store.change_bucket(call.bucket, replace(details, tags=tags))
    return Response(_NO_CONTENT)


def read_tags(body: bytes, *, most: int = MOST_OBJECT_TAGS) -> dict[str, str]:
    """The tags of a Tagging element.

    Raises:
        S3Fault: they are not valid.
    """
    sets = parse(body, "Tagging").findall("TagSet")
    if len(sets) != 1:
        raise S3Fault("MalformedXML")
    pairs = [(tag.findtext("Key"), tag.findtext("Value")) for tag in sets[0].findall("Tag")]
    if any(key is None or value is None for key, value in pairs):
        raise S3Fault("MalformedXML")
    return check_tags([(key or "", value or "") for key, value in pairs], most=most)


def check_tags(
    pairs: Sequence[tuple[str, str]], *, most: int = MOST_OBJECT_TAGS
) -> dict[str, str]:
    """Tags, if S3 would take them.

    Raises:
        S3Fault: there are too many, one twice, or one is too long.
    """
    tags = dict(pairs)
    if len(tags) != len(pairs):
        raise S3Fault("InvalidTag", "Cannot provide multiple Tags with the same key")
    if len(tags) > most:
        raise S3Fault("InvalidTag", f"Object tags cannot be greater than {most}")
    for key, value in tags.items():
        if not 0 < len(key) <= 128 or len(value) > 256:
            raise S3Fault("InvalidTag", "A key has 1 to 128 characters, a value at most 256.")
    return tags


def _make_tags(tags: Mapping[str, str]) -> bytes:
    """A Tagging element."""
    each = (element("Tag", leaves([("Key", k), ("Value", v)])) for k, v in sorted(tags.items()))
    return document("Tagging", element("TagSet", *each))
