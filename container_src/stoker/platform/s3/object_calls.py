"""Operations on one object."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from stoker.platform.s3.acl_calls import read_acl
from stoker.platform.s3.body import make_full, receive, write_all
from stoker.platform.s3.call import (
    Call,
    answer_xml,
    http_date,
    iso_date,
    parse_http_date,
    parse_pairs,
)
from stoker.platform.s3.checksums import ALGORITHMS, HEADER, make_checksum
from stoker.platform.s3.conditions import (
    check_copy_source,
    check_read,
    make_delete_check,
    make_write_check,
)
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.object_index import Details
from stoker.platform.s3.object_store import ObjectInfo
from stoker.platform.s3.tag_calls import check_tags
from stoker.platform.s3.xml_text import (
    document,
    element,
    leaf,
    leaves,
)

_STORED = {
    "content-type": "Content-Type",
    "cache-control": "Cache-Control",
    "content-disposition": "Content-Disposition",
    "content-encoding": "Content-Encoding",
    "content-language": "Content-Language",
    "expires": "Expires",
    "x-amz-website-redirect-location": "x-amz-website-redirect-location",
}
# Said back, because stock code looks for it; files here are as private as the root folder is.
_ENCRYPTION = ("x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id")
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_META = "x-amz-meta-"
_MOST_META_BYTES = 2048  # S3's limit
_PARTIAL = 206
_NO_CONTENT = 204
_CHUNK_BYTES = 1 << 20
_DEFAULT_TYPE = "binary/octet-stream"


def get_object(call: Call) -> Response:
    """GetObject and HeadObject."""
    call.require_only_version()
    is_head = call.request.method == "HEAD"
    found = call.store.open(call.bucket, call.key) if not is_head else None
    info = found[1] if found else call.find()
    try:
        response = check_read(call, info) or _make_answer(call, info)
    except BaseException:
        if found:
            found[0].close()
        raise
    if found and response.status in (200, _PARTIAL):
        response.file = found[0]
    elif found:
        found[0].close()
    return response


def _make_answer(call: Call, info: ObjectInfo) -> Response:
    details = info.details
    headers = make_headers(info, details)
    for name, value in call.params.items():
        if name.startswith("response-"):
            headers["-".join(p.capitalize() for p in name.split("-")[1:])] = value
    response = Response(200, headers, length=info.size_bytes)
    span = _find_part(call, info, details, headers) or _find_range(call, info)
    if span is not None:
        start, end = span
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{info.size_bytes}"
        response.status, response.offset, response.length = _PARTIAL, start, end - start
    if call.header("x-amz-checksum-mode").upper() == "ENABLED":
        if "partNumber" in call.params and details.parts:
            sums = details.parts[call.number("partNumber", 1) - 1][1]
            headers |= checksum_headers(replace(details, checksums=sums))
        elif span is None:  # of the whole, so not with a part of it
            headers |= checksum_headers(details)
    return response


def make_headers(info: ObjectInfo, details: Details) -> dict[str, str]:
    """What GetObject and HeadObject say about an object."""
    return {
        "Content-Type": _DEFAULT_TYPE,
        **details.headers,
        "ETag": f'"{info.etag}"',
        "Last-Modified": http_date(info.modified),
        "Accept-Ranges": "bytes",
        **{f"{_META}{name}": _as_read(value) for name, value in details.metadata.items()},
        **({"x-amz-tagging-count": str(len(details.tags))} if details.tags else {}),
    }


def _as_read(value: str) -> str:
    """Metadata came as UTF-8, but boto3 reads headers as Latin-1: what that can hold goes so."""
    try:
        text = value.encode("latin-1").decode()
        text.encode("latin-1")
    except UnicodeError:
        return value
    return text


def checksum_headers(details: Details) -> dict[str, str]:
    """The checksums of an object as headers."""
    if not details.checksums:
        return {}
    values = {f"{HEADER}{name}": value for name, value in details.checksums.items()}
    return {**values, f"{HEADER}type": details.checksum_type or "FULL_OBJECT"}


def _find_part(
    call: Call, info: ObjectInfo, details: Details, headers: dict[str, str]
) -> tuple[int, int] | None:
    if "partNumber" not in call.params:
        return None
    number, sizes = call.number("partNumber", 1), [size for size, _ in details.parts]
    if details.parts:
        headers["x-amz-mp-parts-count"] = str(len(sizes))
    if not 1 <= number <= max(len(sizes), 1):
        raise S3Fault("InvalidPart", "The requested partnumber is not satisfiable")
    if not sizes:
        return (0, info.size_bytes) if info.size_bytes else None
    start = sum(sizes[: number - 1])
    return start, start + sizes[number - 1]


def _find_range(call: Call, info: ObjectInfo) -> tuple[int, int] | None:
    found = _RANGE.fullmatch(call.header("range").replace(" ", ""))
    if found is None or found[1] + found[2] == "":
        return None
    size = info.size_bytes
    if not found[1]:
        start, end = max(size - int(found[2]), 0), size
        is_empty = not int(found[2]) or not size
    else:
        # HTTP's last byte is included; from here on `end` is the byte behind it.
        start, end = int(found[1]), min(int(found[2] or size), size - 1) + 1
        is_empty = start >= size
        if found[2] and int(found[2]) < start:  # not a range: ignored
            return None
    if is_empty:
        raise S3Fault("InvalidRange", headers={"Content-Range": f"bytes */{size}"})
    return start, end


def put_object(call: Call) -> Response:
    """PutObject."""
    call.store.bucket_dir(call.bucket)
    details = read_details(call)
    check = make_write_check(call)
    if check is not None:  # before the body, which may be large; and again when it has come
        check(call.store.find(call.bucket, call.key))
    with call.store.receiving() as file:
        received = receive(call, file)
        info = call.store.commit(
            call.bucket,
            call.key,
            file,
            etag=received.md5,
            details=replace(details, checksums=received.checksums),
            check=check,
        )
    sums = checksum_headers(info.details)
    return Response(200, {"ETag": f'"{info.etag}"', **sums, **encryption_headers(info.details)})


def encryption_headers(details: Details) -> dict[str, str]:
    """The encryption that the client asked for."""
    return {name: details.headers[name] for name in _ENCRYPTION if name in details.headers}


def read_details(call: Call) -> Details:
    """What a request wants stored with an object.

    Raises:
        S3Fault: it is too much, or not valid.
    """
    given = call.request.headers
    headers = {shown: given[name] for name, shown in _STORED.items() if given.get(name)}
    headers |= {name: given[name] for name in _ENCRYPTION if given.get(name)}
    encodings = [each.strip() for each in headers.pop("Content-Encoding", "").split(",")]
    # aws-chunked is how the body travels, not what it is.
    if kept := [each for each in encodings if each and each.lower() != "aws-chunked"]:
        headers["Content-Encoding"] = ", ".join(kept)
    storage_class = given.get("x-amz-storage-class", "STANDARD")
    if storage_class != "STANDARD":
        headers["x-amz-storage-class"] = storage_class
    tags = check_tags(list(parse_pairs(call.header("x-amz-tagging"))))
    metadata = _read_metadata(given)
    return Details(headers=headers, metadata=metadata, tags=tags, acl=read_acl(call))


def _read_metadata(given: Mapping[str, str]) -> dict[str, str]:
    metadata = {k.removeprefix(_META): v for k, v in given.items() if k.startswith(_META)}
    if sum(len(k) + len(v) for k, v in metadata.items()) > _MOST_META_BYTES:
        raise S3Fault("MetadataTooLarge")
    return metadata


def delete_object(call: Call) -> Response:
    """DeleteObject."""
    call.require_only_version()
    modified = parse_http_date(call.header("x-amz-if-match-last-modified-time"))
    size = call.header("x-amz-if-match-size")
    check = make_delete_check(call.header("if-match"), modified, size)
    call.store.remove(call.bucket, call.key, check)
    return Response(_NO_CONTENT)


def open_source(call: Call) -> tuple[BinaryIO, ObjectInfo, str]:
    """The object that a copy is made of, opened; and its bucket.

    Raises:
        S3Fault: there is none, or a condition does not hold.
    """
    text, _, version = call.header("x-amz-copy-source").partition("?versionId=")
    if version not in ("", "null"):
        raise S3Fault("NoSuchVersion", "The specified version does not exist.")
    bucket, _, key = unquote_to_bytes(text).removeprefix(b"/").partition(b"/")
    if not bucket or not key:
        raise S3Fault("InvalidArgument", "Copy Source must mention the source bucket and key.")
    name = bucket.decode(errors="replace")
    found = call.store.open(name, key)
    if found is None:
        raise S3Fault("NoSuchKey")
    try:
        check_copy_source(call, found[1])
    except S3Fault:
        found[0].close()
        raise
    return *found, name


def copy_object(call: Call) -> Response:
    """CopyObject."""
    call.store.bucket_dir(call.bucket)
    source, info, bucket = open_source(call)
    with source:
        is_same = (bucket, info.key) == (call.bucket, call.key)
        details = _choose_details(call, info, is_same=is_same)
        require_room(call, info.size_bytes)
        algorithm = call.header("x-amz-checksum-algorithm").lower()
        with call.store.receiving() as file:
            if "-" not in info.etag and (not algorithm or algorithm in details.checksums):
                copy_bytes(source, file, 0, info.size_bytes)
                etag = info.etag
            else:  # in parts before, in one now: another ETag
                checksum = make_checksum(algorithm) if algorithm in ALGORITHMS else None
                _, md5 = write_all(read_pieces(source), file, [checksum] if checksum else [])
                etag, sums = md5.hex(), {}
                if checksum:
                    sums = {algorithm: to_base64(checksum.digest())}
                details = replace(details, checksums=sums, checksum_type="", parts=(), upload="")
            copy = call.store.commit(
                call.bucket,
                call.key,
                file,
                etag=etag,
                details=details,
                check=make_write_check(call),
            )
    fields = [("LastModified", iso_date(copy.modified)), ("ETag", f'"{etag}"')]
    fields += [(f"Checksum{n.upper()}", v) for n, v in details.checksums.items()]
    response = answer_xml(document("CopyObjectResult", leaves(fields)))
    response.headers |= encryption_headers(copy.details)
    return response


def _choose_details(call: Call, info: ObjectInfo, *, is_same: bool) -> Details:
    details, new = info.details, read_details(call)
    replaces = call.header("x-amz-metadata-directive").upper() == "REPLACE"
    if is_same and not replaces and not call.header("x-amz-storage-class"):
        raise S3Fault(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect location "
            "or encryption attributes.",
        )
    if replaces:
        details = replace(details, headers=new.headers, metadata=new.metadata)
    if call.header("x-amz-tagging-directive").upper() == "REPLACE":
        details = replace(details, tags=new.tags)
    return replace(details, acl=new.acl)


def require_room(call: Call, size_bytes: int) -> None:
    """
    Raises:
        S3Fault: InsufficientStorage.
    """
    if size_bytes > call.store.free_bytes():
        raise make_full(call.store.free_bytes(), size_bytes)


def copy_bytes(source: BinaryIO, target: BinaryIO, start: int, size_bytes: int) -> None:
    """Append a part of a file to another, by the kernel: some file systems copy nothing."""
    while size_bytes:
        copied = os.copy_file_range(source.fileno(), target.fileno(), size_bytes, start)
        if not copied:
            raise S3Fault("InternalError", "The object became shorter while it was copied.")
        start, size_bytes = start + copied, size_bytes - copied


def read_pieces(source: BinaryIO) -> Iterator[bytes]:
    """A file, piece by piece."""
    while piece := source.read(_CHUNK_BYTES):
        yield piece


def to_base64(digest: bytes) -> str:
    """A digest as headers have it."""
    return base64.b64encode(digest).decode()


def get_attributes(call: Call) -> Response:
    """GetObjectAttributes."""
    info = call.find()
    details = info.details
    wanted = {name.strip() for name in call.header("x-amz-object-attributes").split(",")}
    content = []
    if "ETag" in wanted:
        content.append(leaf("ETag", info.etag))
    if "Checksum" in wanted and details.checksums:
        sums = [(f"Checksum{n.upper()}", v) for n, v in details.checksums.items()]
        kind = details.checksum_type or "FULL_OBJECT"
        content.append(element("Checksum", leaves([*sums, ("ChecksumType", kind)])))
    if "ObjectParts" in wanted and details.parts:
        content.append(element("ObjectParts", *_list_parts(call, details)))
    if "StorageClass" in wanted:
        storage_class = details.headers.get("x-amz-storage-class", "STANDARD")
        content.append(leaf("StorageClass", storage_class))
    if "ObjectSize" in wanted:
        content.append(leaf("ObjectSize", info.size_bytes))
    response = answer_xml(document("GetObjectAttributesResponse", *content))
    response.headers["Last-Modified"] = http_date(info.modified)
    return response


def _list_parts(call: Call, details: Details) -> Iterator[str]:
    most = call.header_number("x-amz-max-parts", 1000)
    after = call.header_number("x-amz-part-number-marker", 0)
    shown = list(enumerate(details.parts, start=1))[after : after + most]
    last = shown[-1][0] if shown else 0
    yield leaf("PartsCount", len(details.parts))
    yield leaf("PartNumberMarker", after)
    yield leaf("NextPartNumberMarker", last)
    yield leaf("MaxParts", most)
    yield leaf("IsTruncated", last < len(details.parts))
    for number, (size, sums) in shown:
        values = [(f"Checksum{n.upper()}", v) for n, v in sums.items()]
        yield element("Part", leaves([("PartNumber", number), ("Size", size), *values]))
