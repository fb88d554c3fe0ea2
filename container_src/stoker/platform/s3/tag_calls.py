"""Tags of objects and of buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stoker.platform.s3.call import Call, answer_xml
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.xml_text import check_tags, make_tags, parse, read_tags

_MOST_TAGS = 10
_NO_CONTENT = 204


def get_tags(call: Call) -> Response:
    """GetObjectTagging."""
    return answer_xml(make_tags(dict(call.find().details.tags)))


def put_tags(call: Call) -> Response:
    """PutObjectTagging."""
    tags = read_tags(parse(call.read_small(), "Tagging"))
    check_tags(list(tags.items()), most=_MOST_TAGS)
    _store_tags(call, tags)
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
    return answer_xml(make_tags(dict(tags)))


def put_bucket_tags(call: Call) -> Response:
    """PutBucketTagging."""
    return _store_bucket_tags(call, read_tags(parse(call.read_small(), "Tagging")))


def delete_bucket_tags(call: Call) -> Response:
    """DeleteBucketTagging."""
    return _store_bucket_tags(call, {})


def _store_bucket_tags(call: Call, tags: dict[str, str]) -> Response:
    details = call.store.read_bucket(call.bucket)[1]
    call.store.change_bucket(call.bucket, replace(details, tags=tags))
    return Response(_NO_CONTENT)
