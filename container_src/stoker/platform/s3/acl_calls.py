"""The few ACLs that stock code sets: private, or public to read or to read and write.

There is one account, so the others mean private. Grants of single permissions are refused.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.platform.model.root import ACCOUNT
from stoker.platform.s3.call import Call, answer_xml
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.object_index import Details
from stoker.platform.s3.xml_text import document, element, leaf, leaves

OWNER = leaves([("ID", ACCOUNT), ("DisplayName", "stoker")])
_READ, _WRITE = "public-read", "public-read-write"
_CANNED = {
    *("private", _READ, _WRITE, "authenticated-read", "aws-exec-read", "log-delivery-write"),
    *("bucket-owner-read", "bucket-owner-full-control"),
}
_EVERYONE = "http://acs.amazonaws.com/groups/global/AllUsers"
_XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="{}"'


def read_acl(call: Call) -> str:
    """The ACL that a request sets; empty for one that is private here.

    Raises:
        S3Fault: there is none of that name.
    """
    name = call.header("x-amz-acl")
    if name and name not in _CANNED:
        raise S3Fault("InvalidArgument", f"{name!r} is not an ACL.")
    return name if name in (_READ, _WRITE) else ""


def may_read_object(call: Call) -> bool:
    """Whether an object, or the fact that there is none, is public."""
    bucket = call.store.read_bucket(call.bucket)[1]
    info = call.store.find(call.bucket, call.key)
    return bool(info.details.acl if info else bucket.acl)


def may_list(call: Call) -> bool:
    """Whether the list of a bucket is public."""
    return bool(call.store.read_bucket(call.bucket)[1].acl)


def may_write(call: Call) -> bool:
    """Whether objects of a bucket may be written by everyone."""
    return call.store.read_bucket(call.bucket)[1].acl == _WRITE


def get_acl(call: Call) -> Response:
    """GetBucketAcl and GetObjectAcl."""
    acl = _read_details(call).acl
    owner = f"<Grantee {_XSI.format('CanonicalUser')}>{OWNER}</Grantee>"
    everyone = f"<Grantee {_XSI.format('Group')}>{leaf('URI', _EVERYONE)}</Grantee>"
    grants = [(owner, "FULL_CONTROL")]
    grants += [(everyone, "READ")] if acl else []
    grants += [(everyone, "WRITE")] if acl == _WRITE else []
    shown = [element("Grant", who, leaf("Permission", what)) for who, what in grants]
    owner_of_it = element("Owner", OWNER)
    return answer_xml(
        document("AccessControlPolicy", owner_of_it, element("AccessControlList", *shown))
    )


def put_acl(call: Call) -> Response:
    """PutBucketAcl and PutObjectAcl, by the name of an ACL."""
    if call.read_small() or any(name.startswith("x-amz-grant-") for name in call.request.headers):
        text = "Grants are not emulated here; set an ACL by its name, such as public-read."
        raise S3Fault("NotImplemented", text)
    acl = read_acl(call)
    with call.store.committing:
        details = replace(_read_details(call), acl=acl)
        if call.key:
            call.store.change_details(call.bucket, call.find(), details)
        else:
            call.store.change_bucket(call.bucket, details)
    return Response(200)


def _read_details(call: Call) -> Details:
    return call.find().details if call.key else call.store.read_bucket(call.bucket)[1]
