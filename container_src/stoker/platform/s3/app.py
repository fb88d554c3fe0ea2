"""Which operation a request asks for, and whether it may."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from urllib.parse import unquote_to_bytes

from stoker.platform.model.root import ACCOUNT, Credentials
from stoker.platform.model.signature import (
    UNSIGNED_PAYLOAD,
    Message,
    Signature,
    SignatureRefused,
    is_presigned_v2,
    read_signature,
    require_signature,
    require_signature_v2,
    split_query,
)
from stoker.platform.s3 import (
    acl_calls,
    bucket_calls,
    object_calls,
    post_form,
    tag_calls,
    upload_calls,
)
from stoker.platform.s3.body import is_full, make_full
from stoker.platform.s3.call import Call, answer_xml, require_key
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Request, Response
from stoker.platform.s3.object_store import BucketMissing, ObjectStore
from stoker.platform.s3.unset_calls import answer_unset, find_unset, require_known
from stoker.platform.s3.xml_text import make_error

Operation = Callable[[Call], Response]
_EXPECTED_OWNERS = ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner")
_CODES: Mapping[str, str] = {
    "missing": "AccessDenied",
    "malformed": "AuthorizationHeaderMalformed",
    "unknown_key": "InvalidAccessKeyId",
    "mismatch": "SignatureDoesNotMatch",
    "expired": "RequestTimeTooSkewed",
}
# By what the address is about, the method, and the parameter that names a part of it.
_BUCKETS: Mapping[tuple[str, str], Operation] = {
    ("GET", "uploads"): upload_calls.list_uploads,
    ("GET", "versions"): bucket_calls.list_versions,
    ("GET", "location"): bucket_calls.get_location,
    ("GET", "versioning"): bucket_calls.get_versioning,
    ("GET", "tagging"): tag_calls.get_bucket_tags,
    ("PUT", "tagging"): tag_calls.put_bucket_tags,
    ("DELETE", "tagging"): tag_calls.delete_bucket_tags,
    ("GET", "ownershipControls"): acl_calls.get_ownership,
    ("PUT", "ownershipControls"): acl_calls.put_ownership,
    ("DELETE", "ownershipControls"): acl_calls.delete_ownership,
    ("GET", "list-type"): bucket_calls.list_objects_v2,
    ("POST", "delete"): bucket_calls.delete_objects,
    ("GET", ""): bucket_calls.list_objects,
    ("HEAD", ""): bucket_calls.head_bucket,
    ("GET", "acl"): acl_calls.get_acl,
    ("PUT", "acl"): acl_calls.put_acl,
    ("PUT", ""): bucket_calls.make_bucket,
    ("DELETE", ""): bucket_calls.delete_bucket,
}
_OBJECTS: Mapping[tuple[str, str], Operation] = {
    ("POST", "uploads"): upload_calls.begin_upload,
    ("POST", "uploadId"): upload_calls.complete_upload,
    ("DELETE", "uploadId"): upload_calls.abort_upload,
    ("GET", "uploadId"): upload_calls.list_parts,
    ("PUT", "uploadId"): upload_calls.put_part,
    ("GET", "tagging"): tag_calls.get_tags,
    ("PUT", "tagging"): tag_calls.put_tags,
    ("DELETE", "tagging"): tag_calls.delete_tags,
    ("GET", "attributes"): object_calls.get_attributes,
    ("GET", ""): object_calls.get_object,
    ("HEAD", ""): object_calls.get_object,
    ("GET", "acl"): acl_calls.get_acl,
    ("PUT", "acl"): acl_calls.put_acl,
    ("PUT", ""): object_calls.put_object,
    ("DELETE", ""): object_calls.delete_object,
}
_COPIES: Mapping[Operation, Operation] = {
    object_calls.put_object: object_calls.copy_object,
    upload_calls.put_part: upload_calls.copy_part,
}


# Without a signature: what an ACL may open to everyone.
_PUBLIC: Mapping[Operation, Callable[[Call], bool]] = {
    object_calls.get_object: acl_calls.may_read_object,
    object_calls.put_object: acl_calls.may_write,
    object_calls.delete_object: acl_calls.may_write,
    bucket_calls.list_objects: acl_calls.may_list,
    bucket_calls.list_objects_v2: acl_calls.may_list,
    bucket_calls.head_bucket: acl_calls.may_list,
}


class S3App:
    """Answers S3 requests from a store."""

    def __init__(self, store: ObjectStore, credentials: Credentials) -> None:
        self._store = store
        self._credentials = credentials

    def answer(self, request: Request) -> Response:
        """The answer to a request, a refusal as well."""
        request_id = secrets.token_hex(8).upper()
        try:
            response = self._answer(request)
        except BucketMissing:
            response = _refuse(request, S3Fault("NoSuchBucket"), request_id)
        except S3Fault as fault:
            response = _refuse(request, fault, request_id)
        except (OSError, sqlite3.Error) as error:
            if not is_full(error):
                raise
            response = _refuse(request, make_full(self._store.free_bytes()), request_id)
        response.headers["x-amz-request-id"] = request_id
        response.headers.setdefault("Server", "stoker")
        return response

    def _answer(self, request: Request) -> Response:
        headers = {name: _as_signed(value) for name, value in request.headers.items()}
        message = Message(
            method=request.method, path=request.path, query=request.query, headers=headers
        )
        call = self._make_call(request)
        _require_owner(call)
        if _is_form(call):
            return post_form.post_object(call)
        operation = _choose(call)
        if not _is_signed(message) and (is_public := _PUBLIC.get(operation)):
            if not is_public(call):
                raise S3Fault("AccessDenied")
            return operation(call)
        call.signature = self._authenticate(message)
        return operation(call)

    def _make_call(self, request: Request) -> Call:
        path = request.path
        host = request.headers.get("host", "").partition(":")[0]
        if host.endswith(".localhost"):  # a bucket as a part of the host's name
            path = f"/{host.removesuffix('.localhost')}{path}"
        bucket, _, key = path[1:].partition("/")
        return Call(
            request=request,
            store=self._store,
            credentials=self._credentials,
            bucket=_decode(unquote_to_bytes(bucket)),
            key=unquote_to_bytes(key),
            params=dict(split_query(request.query)),
            signature=None,
        )

    def _authenticate(self, message: Message) -> Signature | None:
        try:
            if is_presigned_v2(message):
                require_signature_v2(message, self._credentials)
                return None
            signature = read_signature(message)
            # The body's own hash is compared when the body has been read.
            stated = message.headers.get("x-amz-content-sha256", UNSIGNED_PAYLOAD)
            require_signature(
                message,
                signature,
                credentials=self._credentials,
                # A presigned address is made before its body is known.
                payload_hash=UNSIGNED_PAYLOAD if signature.presigned else stated,
            )
        except SignatureRefused as refused:
            code = _CODES[refused.kind]
            # S3 tells a presigned address that is too old from a clock that is wrong.
            if refused.kind == "expired" and "authorization" not in message.headers:
                code = "AccessDenied"
            raise S3Fault(code, refused.message) from refused
        return signature


def _as_signed(value: str) -> str:
    """A header's bytes, read by the server as Latin-1, as the text that a client has signed."""
    if value.isascii():
        return value
    return value.encode("latin-1").decode("utf-8", "surrogateescape")


def _require_owner(call: Call) -> None:
    for name in _EXPECTED_OWNERS:
        if call.header(name) not in ("", ACCOUNT):
            raise S3Fault(
                "AccessDenied",
                f"{name} is {call.header(name)}, but all buckets here belong to {ACCOUNT}; "
                "fix: pass the account that sts get-caller-identity returns, or leave it out.",
            )


def _is_signed(message: Message) -> bool:
    try:
        return is_presigned_v2(message) or bool(read_signature(message))
    except SignatureRefused as refused:
        return refused.kind != "missing"


def _choose(call: Call) -> Operation:
    if call.request.method == "OPTIONS":
        raise S3Fault("BadRequest", "Requests across origins are not emulated here.")
    if not call.bucket:
        if call.request.method == "GET":
            return bucket_calls.list_buckets
        raise S3Fault("MethodNotAllowed")
    # Before the tables: `?policy` would otherwise be taken for a request about the bucket itself.
    if find_unset(call):
        return answer_unset
    if call.key:
        require_key(call.key)
    _decode(call.key)
    table = _OBJECTS if call.key else _BUCKETS
    method = call.request.method
    named = [name for of, name in table if of == method and name and name in call.params]
    operation = table.get((method, named[0] if named else ""))
    require_known(call, {name for _, name in (*_BUCKETS, *_OBJECTS)} | {"versioning"})
    if operation is None or (not named and "versioning" in call.params):
        code = "NotImplemented" if "versioning" in call.params else "MethodNotAllowed"
        raise S3Fault(code)
    if "x-amz-copy-source" in call.request.headers:
        return _COPIES.get(operation, operation)
    return operation


def _is_form(call: Call) -> bool:
    return (
        call.request.method == "POST"
        and not call.key
        and bool(call.bucket)
        and call.header("content-type").startswith("multipart/form-data")
    )


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise S3Fault("InvalidURI", "Names of buckets and keys are UTF-8.") from error


def _refuse(request: Request, fault: S3Fault, request_id: str) -> Response:
    body = make_error(fault.code, fault.message, request.path, request_id)
    response = answer_xml(b"" if request.method == "HEAD" else body, fault.status)
    response.headers |= fault.headers
    return response
