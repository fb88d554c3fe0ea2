"""Operations on uploads in parts."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from stoker.platform.s3.acl_calls import OWNER
from stoker.platform.s3.body import Received, receive, write_all
from stoker.platform.s3.bucket_calls import key_text
from stoker.platform.s3.call import Call, answer_xml, iso_date
from stoker.platform.s3.checksums import (
    ALGORITHMS,
    HEADER,
    combine_digests,
    combine_parts,
    make_checksum,
)
from stoker.platform.s3.conditions import make_write_check
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response, parse_digits
from stoker.platform.s3.object_calls import (
    copy_bytes,
    encryption_headers,
    open_source,
    read_details,
    require_room,
    to_base64,
)
from stoker.platform.s3.object_index import Details, Part, Upload
from stoker.platform.s3.object_store import ObjectInfo
from stoker.platform.s3.xml_text import document, element, leaf, leaves, parse

# S3's limits for all parts but the last, and for their number.
_LEAST_PART_BYTES = 5 * 1024 * 1024
_MOST_PARTS = 10_000  # S3's limit
_MOST_SHOWN = 1000  # S3's limit of one page
_NO_CONTENT = 204


def begin_upload(call: Call) -> Response:
    """CreateMultipartUpload."""
    call.store.bucket_dir(call.bucket)
    algorithm = call.header("x-amz-checksum-algorithm").lower()
    kind = call.header("x-amz-checksum-type").upper()
    if algorithm and algorithm not in ALGORITHMS:
        raise S3Fault("InvalidRequest", f"Checksum algorithm {algorithm!r} is not supported.")
    if kind == "FULL_OBJECT" and algorithm.startswith("sha"):
        raise S3Fault("InvalidRequest", f"The FULL_OBJECT checksum type needs a CRC: {algorithm}")
    if kind == "COMPOSITE" and algorithm == "crc64nvme":
        raise S3Fault("InvalidRequest", "The COMPOSITE checksum type cannot be used with it.")
    if algorithm and not kind:
        kind = "FULL_OBJECT" if algorithm == "crc64nvme" else "COMPOSITE"
    details = replace(read_details(call), checksum_algorithm=algorithm, checksum_type=kind)
    upload = Upload(
        id=secrets.token_hex(16),
        bucket=call.bucket,
        key=call.key,
        created=time.time(),
        details=details,
    )
    _folder(call, upload.id).mkdir(parents=True)
    call.store.index.add_upload(upload)
    place = [("Bucket", call.bucket), ("Key", call.key.decode()), ("UploadId", upload.id)]
    response = answer_xml(document("InitiateMultipartUploadResult", leaves(place)))
    response.headers |= encryption_headers(details)
    if algorithm:
        response.headers[f"{HEADER}algorithm"] = algorithm.upper()
        response.headers[f"{HEADER}type"] = kind
    return response


def put_part(call: Call) -> Response:
    """UploadPart."""
    upload, number = _find(call), _number(call)
    file = _folder(call, upload.id) / secrets.token_hex(8)
    with _open_part(file) as target:
        try:
            received = receive(call, target, algorithm=upload.details.checksum_algorithm)
            _add_part(call, upload, number, file, received)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
    sums = {f"{HEADER}{name}": value for name, value in received.checksums.items()}
    return Response(200, {"ETag": f'"{received.md5}"', **sums})


def copy_part(call: Call) -> Response:
    """UploadPartCopy."""
    upload, number = _find(call), _number(call)
    source, info, _ = open_source(call)
    with source:
        start, end = _read_source_range(call, info)
        require_room(call, end - start)
        file = _folder(call, upload.id) / secrets.token_hex(8)
        algorithm = upload.details.checksum_algorithm
        checksum = make_checksum(algorithm) if algorithm else None
        with _open_part(file) as target:
            try:
                pieces = _read_slice(source.fileno(), start, end)
                size, md5 = write_all(pieces, target, [checksum] if checksum else [])
                sums = {algorithm: to_base64(checksum.digest())} if checksum else {}
                received = Received(size_bytes=size, md5=md5.hex(), checksums=sums)
                _add_part(call, upload, number, file, received)
            except BaseException:
                file.unlink(missing_ok=True)
                raise
    fields = [("LastModified", iso_date(time.time())), ("ETag", f'"{received.md5}"')]
    fields += [(f"Checksum{n.upper()}", v) for n, v in sums.items()]
    return answer_xml(document("CopyPartResult", leaves(fields)))


def _read_source_range(call: Call, info: ObjectInfo) -> tuple[int, int]:
    text = call.header("x-amz-copy-source-range")
    if not text:
        return 0, info.size_bytes
    found = re.fullmatch(r"bytes=([0-9]{1,18})-([0-9]{1,18})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise S3Fault("InvalidArgument", "The x-amz-copy-source-range must be bytes=FIRST-LAST.")
    if int(found[2]) >= info.size_bytes:
        raise S3Fault("InvalidRange", f"The source has only {info.size_bytes} bytes.")
    return int(found[1]), int(found[2]) + 1


def _read_slice(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (piece := os.pread(descriptor, min(1 << 20, end - start), start)):
        start += len(piece)
        yield piece


def _add_part(call: Call, upload: Upload, number: int, file: Path, received: Received) -> None:
    part = Part(
        number=number,
        size_bytes=received.size_bytes,
        etag=received.md5,
        file=file.name,
        modified=time.time(),
        checksums=received.checksums,
    )
    with call.store.committing:
        _find(call)  # it may have been aborted meanwhile
        before = [p for p in call.store.index.list_parts(upload.id) if p.number == number]
        call.store.index.put_part(upload.id, part)
    for old in before:
        (_folder(call, upload.id) / old.file).unlink(missing_ok=True)


def complete_upload(call: Call) -> Response:
    """CompleteMultipartUpload."""
    body = call.read_small()
    try:
        return _answer_complete(call, _complete(call, body))
    except (S3Fault, FileNotFoundError) as error:
        # A client that lost the answer asks again, perhaps while the first request still runs.
        info = call.store.find(call.bucket, call.key)
        if info is not None and info.details.upload == call.params["uploadId"]:
            return _answer_complete(call, info)
        if isinstance(error, FileNotFoundError):
            raise S3Fault("InvalidPart", "A part was sent again meanwhile.") from error
        raise


def _complete(call: Call, body: bytes) -> ObjectInfo:
    upload = _find(call)
    parts = _choose_parts(body, call.store.index.list_parts(upload.id))
    etag = _make_etag(parts)
    details = _make_details(call, upload, parts)
    size_bytes = sum(part.size_bytes for part in parts)
    if call.header("x-amz-mp-object-size") not in ("", str(size_bytes)):
        raise S3Fault("InvalidRequest", "The size of the object is not x-amz-mp-object-size.")
    files = [_folder(call, upload.id) / part.file for part in parts]
    check = make_write_check(call)
    with call.store.receiving() as target:
        if len(files) > 1:
            require_room(call, size_bytes)
            for file, part in zip(files, parts, strict=True):
                with file.open("rb", buffering=0) as source:
                    copy_bytes(source, target, 0, part.size_bytes)
        with files[0].open("rb", buffering=0) as only:
            info = call.store.commit(
                call.bucket,
                call.key,
                # A single part becomes the object without a copy.
                target if len(files) > 1 else only,
                etag=etag,
                details=details,
                check=check,
            )
    call.store.index.remove_upload(upload.id)
    shutil.rmtree(_folder(call, upload.id), ignore_errors=True)
    return info


def _answer_complete(call: Call, info: ObjectInfo) -> Response:
    details = info.details
    host = call.header("host")
    fields = [
        ("Location", f"http://{host}/{call.bucket}/{call.key.decode()}"),
        ("Bucket", call.bucket),
        ("Key", call.key.decode()),
        ("ETag", f'"{info.etag}"'),
        *((f"Checksum{n.upper()}", v) for n, v in details.checksums.items()),
    ]
    if details.checksums:
        fields.append(("ChecksumType", details.checksum_type))
    response = answer_xml(document("CompleteMultipartUploadResult", leaves(fields)))
    response.headers |= encryption_headers(details)
    return response


def _choose_parts(body: bytes, stored: Sequence[Part]) -> list[Part]:
    """The parts that a client names."""
    known = {part.number: part for part in stored}
    chosen: list[Part] = []
    for asked in parse(body, "CompleteMultipartUpload").findall("Part"):
        number = (asked.findtext("PartNumber") or "").strip()
        etag = (asked.findtext("ETag") or "").strip().strip('"')
        if parse_digits(number) is None:
            raise S3Fault("MalformedXML")
        part = known.get(int(number))
        sums = {n: asked.findtext(f"Checksum{n.upper()}") or "" for n in ALGORITHMS}
        if part is None or etag != part.etag:
            raise S3Fault("InvalidPart")
        if any(text and part.checksums.get(n) != text for n, text in sums.items()):
            raise S3Fault("InvalidPart", "A part has another checksum than you specified.")
        if chosen and chosen[-1].number >= part.number:
            raise S3Fault("InvalidPartOrder")
        chosen.append(part)
    if not chosen:
        raise S3Fault("MalformedXML")
    if any(part.size_bytes < _LEAST_PART_BYTES for part in chosen[:-1]):
        raise S3Fault("EntityTooSmall")
    return chosen


def _make_etag(parts: Sequence[Part]) -> str:
    digests = b"".join(bytes.fromhex(part.etag) for part in parts)
    # S3's ETag of an upload in parts: the MD5 of the parts' MD5s, and their number.
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"


def _make_details(call: Call, upload: Upload, parts: Sequence[Part]) -> Details:
    algorithm, kind = upload.details.checksum_algorithm, upload.details.checksum_type
    kept = [(p.size_bytes, dict(p.checksums) if algorithm else {}) for p in parts]
    details = replace(upload.details, checksum_algorithm="", parts=kept, upload=upload.id)
    if not algorithm:
        return details
    if kind == "COMPOSITE":
        value = combine_digests(algorithm, [p.checksums[algorithm] for p in parts])
    else:
        value = combine_parts(algorithm, [(p.size_bytes, p.checksums[algorithm]) for p in parts])
    promised = call.header(f"{HEADER}{algorithm}")
    if promised and promised != value:
        raise S3Fault("BadDigest", f"The {algorithm} you specified did not match.")
    return replace(details, checksums={algorithm: value}, checksum_type=kind)


def abort_upload(call: Call) -> Response:
    """AbortMultipartUpload."""
    with call.store.committing:
        upload = _find(call)
        call.store.index.remove_upload(upload.id)
    shutil.rmtree(_folder(call, upload.id), ignore_errors=True)
    return Response(_NO_CONTENT)


def list_parts(call: Call) -> Response:
    """ListParts."""
    upload = _find(call)
    after = call.number("part-number-marker", 0)
    limit = min(call.number("max-parts", _MOST_SHOWN), _MOST_SHOWN)
    parts = [p for p in call.store.index.list_parts(upload.id) if p.number > after]
    shown = parts[:limit]
    algorithm = upload.details.checksum_algorithm
    head = [
        ("Bucket", call.bucket),
        ("Key", call.key.decode()),
        ("UploadId", upload.id),
        ("PartNumberMarker", after),
        ("NextPartNumberMarker", shown[-1].number if shown else 0),
        ("MaxParts", limit),
        ("IsTruncated", len(parts) > len(shown)),
        ("StorageClass", upload.details.headers.get("x-amz-storage-class", "STANDARD")),
        ("ChecksumAlgorithm", algorithm.upper() or None),
        ("ChecksumType", upload.details.checksum_type or None),
    ]
    owners = element("Initiator", OWNER) + element("Owner", OWNER)
    return answer_xml(
        document("ListPartsResult", leaves(head), owners, *(_show_part(p) for p in shown))
    )


def _show_part(part: Part) -> str:
    fields = [
        ("PartNumber", part.number),
        ("LastModified", iso_date(part.modified)),
        ("ETag", f'"{part.etag}"'),
        ("Size", part.size_bytes),
        *((f"Checksum{n.upper()}", v) for n, v in part.checksums.items()),
    ]
    return element("Part", leaves(fields))


def list_uploads(call: Call) -> Response:
    """ListMultipartUploads."""
    call.store.bucket_dir(call.bucket)
    prefix = call.params.get("prefix", "").encode()
    marker = call.params.get("key-marker", "").encode()
    id_marker = call.params.get("upload-id-marker", "")
    limit = min(call.number("max-uploads", _MOST_SHOWN), _MOST_SHOWN)
    all_of_it = [
        upload
        for upload in call.store.index.list_uploads(call.bucket)
        if upload.key.startswith(prefix)
        and (upload.key > marker or (upload.key == marker and id_marker and upload.id > id_marker))
    ]
    shown = all_of_it[:limit]
    is_cut = len(all_of_it) > limit
    head = [
        ("Bucket", call.bucket),
        ("KeyMarker", marker.decode()),
        ("UploadIdMarker", id_marker),
        ("Prefix", prefix.decode()),
        ("MaxUploads", limit),
        ("EncodingType", call.params.get("encoding-type")),
        ("IsTruncated", is_cut),
        ("NextKeyMarker", key_text(call, shown[-1].key) if shown and is_cut else None),
        ("NextUploadIdMarker", shown[-1].id if shown and is_cut else None),
    ]
    each = (
        element(
            "Upload",
            leaf("Key", key_text(call, upload.key)),
            leaf("UploadId", upload.id),
            element("Initiator", OWNER),
            element("Owner", OWNER),
            leaf("StorageClass", upload.details.headers.get("x-amz-storage-class", "STANDARD")),
            leaf("Initiated", iso_date(upload.created)),
        )
        for upload in shown
    )
    return answer_xml(document("ListMultipartUploadsResult", leaves(head), *each))


def _find(call: Call) -> Upload:
    call.store.bucket_dir(call.bucket)
    found = call.store.index.list_uploads(call.bucket, call.params["uploadId"] or "?")
    if not found or found[0].key != call.key:
        raise S3Fault("NoSuchUpload")
    return found[0]


def _number(call: Call) -> int:
    number = call.number("partNumber", 0)
    if not 1 <= number <= _MOST_PARTS:
        raise S3Fault("InvalidArgument", f"Part number must be between 1 and {_MOST_PARTS}.")
    return number


def _folder(call: Call, upload_id: str) -> Path:
    return call.store.own_dir / "uploads" / upload_id


def _open_part(file: Path) -> BinaryIO:
    try:
        return open(file, "xb", buffering=0)
    except FileNotFoundError as error:  # aborted meanwhile
        raise S3Fault("NoSuchUpload") from error
