"""An object from an HTML form: its fields carry the proof that it may be stored."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from stoker.platform.model.signature import Signature, sign, sign_v2
from stoker.platform.s3.acl_calls import may_write
from stoker.platform.s3.body import make_full, write_all
from stoker.platform.s3.call import Call, answer_xml, require_key
from stoker.platform.s3.checksums import ALGORITHMS, HEADER, make_checksum
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.object_calls import read_details, to_base64
from stoker.platform.s3.object_index import Details
from stoker.platform.s3.tag_calls import read_tags
from stoker.platform.s3.xml_text import XML_HEAD, element, leaves

_MOST_FIELD_BYTES = 20 * 1024 * 1024
_NO_CONTENT = 204
_CREATED = 201
_SEE_OTHER = 303
_UNSIGNED = {"awsaccesskeyid", "signature", "policy", "file", "x-amz-signature"}


def post_object(call: Call) -> Response:
    """PostObject."""
    call.store.bucket_dir(call.bucket)
    reader = _FormReader(call)
    fields = reader.read_fields()
    if "key" not in fields:
        raise S3Fault("InvalidArgument", "Bucket POST must contain a field named 'key'.")
    key = fields["key"].replace("${filename}", reader.file_name)
    require_key(key.encode())
    least, most = 0, float("inf")
    if "policy" in fields or not may_write(call):
        _require_proof(call, fields)
        least, most = _require_policy(call, {**fields, "key": key}, fields["policy"])
    details = _read_details(call, fields)
    length = call.request.length
    if length and length > call.store.free_bytes():
        raise make_full(call.store.free_bytes(), length)
    with call.store.receiving() as file:
        promised = {n: fields[HEADER + n] for n in ALGORITHMS if HEADER + n in fields}
        sums = {name: make_checksum(name) for name in promised}
        size_bytes, md5 = write_all(reader.read_file(), file, sums.values())
        if {name: to_base64(each.digest()) for name, each in sums.items()} != promised:
            raise S3Fault("BadDigest")
        if size_bytes < least:
            raise S3Fault("EntityTooSmall")
        if size_bytes > most:
            raise S3Fault("EntityTooLarge")
        details = replace(details, checksums=promised)
        call.store.commit(call.bucket, key.encode(), file, etag=md5.hex(), details=details)
    return _answer(call, fields, key, md5.hex())


def _answer(call: Call, fields: Mapping[str, str], key: str, etag: str) -> Response:
    redirect = fields.get("success_action_redirect") or fields.get("redirect")
    if redirect and re.match(r"https?://", redirect):
        mark = "&" if "?" in redirect else "?"
        place = f"bucket={quote(call.bucket)}&key={quote(key, safe='')}&etag=%22{etag}%22"
        return Response(_SEE_OTHER, {"Location": f"{redirect}{mark}{place}"})
    status = fields.get("success_action_status", "")
    headers = {
        "ETag": f'"{etag}"',
        "Location": f"http://{call.header('host')}/{call.bucket}/{key}",
    }
    if status == str(_CREATED):
        fields_of_it = [("Location", headers["Location"]), ("Bucket", call.bucket), ("Key", key)]
        named = leaves([*fields_of_it, ("ETag", f'"{etag}"')])
        body = f"{XML_HEAD}{element('PostResponse', named)}".encode()  # no namespace in this one
        return answer_xml(body, _CREATED)
    return Response(200 if status == "200" else _NO_CONTENT, headers)


def _read_details(call: Call, fields: Mapping[str, str]) -> Details:
    # As if they were headers, which HTTP carries as bytes.
    given = {name: text.encode().decode("latin-1") for name, text in fields.items()}
    given.pop("tagging", None)
    given["x-amz-acl"] = given.pop("acl", "")
    before = call.request.headers
    call.request.headers = {k: v for k, v in given.items() if k != "content-length"}
    try:
        details = read_details(call)
    finally:
        call.request.headers = before
    if "tagging" not in fields:
        return details
    return replace(details, tags=read_tags(fields["tagging"].encode()))


def _require_proof(call: Call, fields: Mapping[str, str]) -> None:
    policy = fields.get("policy")
    if "awsaccesskeyid" in fields or "signature" in fields:
        access_key, given = fields.get("awsaccesskeyid"), fields.get("signature")
        expected = sign_v2(call.credentials, policy or "")
    elif "x-amz-signature" in fields:
        parts = fields.get("x-amz-credential", "").split("/")
        if len(parts) != 5 or parts[4] != "aws4_request":
            raise S3Fault("InvalidArgument", "x-amz-credential is not valid.")
        access_key, given = parts[0], fields["x-amz-signature"]
        signature = Signature(
            access_key=access_key,
            date=parts[1],
            region=parts[2],
            service=parts[3],
            signed_headers=(),
            signature="",
            presigned=True,
        )
        expected = sign(call.credentials, signature, policy or "")
    else:
        raise S3Fault("AccessDenied")
    if policy is None or access_key is None or given is None:
        raise S3Fault("InvalidArgument", "A form needs policy, key id and signature.")
    if access_key != call.credentials.access_key:
        raise S3Fault("InvalidAccessKeyId", "The AWS access key Id you provided is not ours.")
    if not hmac.compare_digest(expected.encode(), given.encode()):
        raise S3Fault("SignatureDoesNotMatch", "The signature does not match the policy.")


def _require_policy(call: Call, fields: Mapping[str, str], text: str) -> tuple[int, float]:
    """
    Returns:
        The smallest and the largest size that it allows.

    Raises:
        S3Fault: the policy is not valid, expired, or does not allow this form.
    """
    policy = _parse_policy(text)
    expires = _parse_expiration(policy["expiration"])
    if expires < datetime.now(UTC):
        raise S3Fault("AccessDenied", "Invalid according to Policy: Policy expired.")
    values = {**fields, "bucket": call.bucket}
    least, most = 0, float("inf")
    named = set()
    for kind, name, wanted in _read_conditions(policy["conditions"]):
        if kind == "content-length-range":
            least, most = _parse_range(name, wanted)
            continue
        named.add(name)
        actual = values.get(name, "")
        holds = actual == wanted if kind == "eq" else actual.startswith(wanted)
        if not holds:
            raise S3Fault(
                "AccessDenied", f"Invalid according to Policy: Policy Condition failed: {name}"
            )
    # S3 refuses a form with fields that its policy does not name: they would be unsigned.
    extra = {n for n in fields if not n.startswith(("x-ignore-", HEADER))} - named - _UNSIGNED
    if extra:
        names = ", ".join(sorted(extra))
        raise S3Fault("AccessDenied", f"Invalid according to Policy: Extra input fields: {names}")
    return least, most


def _parse_policy(text: str) -> dict[str, Any]:
    try:
        policy = json.loads(base64.b64decode(text))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise S3Fault("InvalidPolicyDocument", "The policy is not JSON.") from error
    if (
        not isinstance(policy, dict)
        or not isinstance(policy.get("conditions"), list)
        or not isinstance(policy.get("expiration"), str)
    ):
        raise S3Fault("InvalidPolicyDocument", "The policy needs expiration and conditions.")
    return policy


def _parse_expiration(text: str) -> datetime:
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", text):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    raise S3Fault("InvalidPolicyDocument", f"{text!r} is not a time such as 2030-01-31T00:00:00Z.")


def _read_conditions(conditions: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    for condition in conditions:
        if isinstance(condition, dict):
            if not condition:
                raise S3Fault("InvalidPolicyDocument", "A condition is empty.")
            for name, wanted in condition.items():
                yield "eq", name.lower(), _text(wanted)
            continue
        match condition:
            case ["content-length-range", least, most]:
                yield "content-length-range", least, most
            case [str(kind), str(name), wanted] if kind.lower() in ("eq", "starts-with"):
                yield kind.lower(), name.removeprefix("$").lower(), _text(wanted)
            case _:
                raise S3Fault("InvalidPolicyDocument", f"{condition!r} is not a condition.")


def _text(wanted: object) -> str:
    if not isinstance(wanted, str):
        raise S3Fault("InvalidPolicyDocument", f"{wanted!r} is not a text.")
    return wanted


def _parse_range(least: object, most: object) -> tuple[int, int]:
    try:
        found = int(str(least)), int(str(most))
    except ValueError as error:
        raise S3Fault("InvalidPolicyDocument", "content-length-range needs numbers.") from error
    if found[0] < 0 or found[1] < found[0]:
        raise S3Fault("InvalidPolicyDocument", "content-length-range is not a range.")
    return found


class _FormReader:
    """The fields of a form, then its file as a stream."""

    def __init__(self, call: Call) -> None:
        found = re.search(r'boundary="?([^";]+)"?', call.header("content-type"))
        if found is None:
            raise S3Fault("MalformedPOSTRequest", "The form has no boundary.")
        self._mark = b"\r\n--" + found[1].encode()
        self._pieces = call.request.read_body()
        self._buffer = bytearray(b"\r\n")
        self.file_name = ""

    def read_fields(self) -> dict[str, str]:
        """All fields before the file, names in lower case."""
        fields: dict[str, str] = {}
        self._read_to(self._mark)
        while True:
            if self._read_to(b"\r\n").startswith(b"--"):
                raise S3Fault(
                    "InvalidArgument", "POST requires exactly one file upload per request."
                )
            name = self._read_name()
            if name == "file":
                return fields
            fields[name] = self._read_to(self._mark).decode(errors="replace")

    def read_file(self) -> Iterator[bytes]:
        """The content of the file."""
        while (at := self._buffer.find(self._mark)) < 0:
            # The end of what is there may be the begin of the mark.
            safe = len(self._buffer) - len(self._mark)
            if safe > 0:
                yield bytes(self._buffer[:safe])
                del self._buffer[:safe]
            self._read_more()
        yield bytes(self._buffer[:at])
        for _ in self._pieces:
            pass

    def _read_name(self) -> str:
        name = ""
        while line := self._read_to(b"\r\n").decode(errors="replace"):
            if not line.lower().startswith("content-disposition:"):
                continue
            found = re.search(r'[; ]name="([^"]*)"', line)
            name = found[1].lower() if found else name
            if file := re.search(r'filename="([^"]*)"', line):
                self.file_name = re.split(r"[/\\]", file[1])[-1]
        return name

    def _read_to(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > _MOST_FIELD_BYTES:
                raise S3Fault("MaxPostPreDataLengthExceeded", "A field of the form is too long.")
            self._read_more()
        found = bytes(self._buffer[:at])
        del self._buffer[: at + len(mark)]
        return found

    def _read_more(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise S3Fault("MalformedPOSTRequest", "The form ends within a field.")
        self._buffer += piece
