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
from stoker.platform.s3.xml_text import document, element, leaf, leaves, parse

OWNER = leaves([("ID", ACCOUNT), ("DisplayName", "stoker")])
_READ, _WRITE = "public-read", "public-read-write"
_CANNED = {
    *("private", _READ, _WRITE, "authenticated-read", "aws-exec-read", "log-delivery-write"),
    *("bucket-owner-read", "bucket-owner-full-control"),
}
OWNERSHIP = "x-amz-object-ownership"
_ENFORCED = "BucketOwnerEnforced"
_OWNERSHIPS = {_ENFORCED, "BucketOwnerPreferred", "ObjectWriter"}
_EVERYONE = "http://acs.amazonaws.com/groups/global/AllUsers"
_NO_GRANTS = "Grants are not emulated here; set an ACL by its name, such as public-read."
_XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="{}"'


def read_acl(call: Call) -> str:
    """The ACL that a request sets; empty for one that is private here.

    Raises:
        S3Fault: there is none of that name, or it grants single permissions.
    """
    if any(header.startswith("x-amz-grant-") for header in call.request.headers):
        raise S3Fault("NotImplemented", _NO_GRANTS)
    name = call.header("x-amz-acl")
    if name and name not in _CANNED:
        raise S3Fault("InvalidArgument", f"{name!r} is not an ACL.")
    # With ACLs switched off S3 accepts this one alone: it changes nothing.
    if name and name != "bucket-owner-full-control" and _find_ownership(call) == _ENFORCED:
        raise S3Fault("AccessControlListNotSupported")
    return name if name in (_READ, _WRITE) else ""


def read_ownership(call: Call) -> str:
    """The ownership controls that CreateBucket sets; empty for none."""
    name = call.header(OWNERSHIP)
    if name and name not in _OWNERSHIPS:
        raise S3Fault("InvalidArgument", f"{name!r} is not one of {', '.join(_OWNERSHIPS)}.")
    return name


def get_ownership(call: Call) -> Response:
    """GetBucketOwnershipControls."""
    call.store.bucket_dir(call.bucket)
    name = _find_ownership(call)
    if not name:
        raise S3Fault("OwnershipControlsNotFoundError")
    rule = element("Rule", leaf("ObjectOwnership", name))
    return answer_xml(document("OwnershipControls", rule))


def put_ownership(call: Call) -> Response:
    """PutBucketOwnershipControls: with one account, all they decide is whether ACLs are taken."""
    rules = parse(call.read_small(), "OwnershipControls").findall("Rule")
    name = (rules[0].findtext("ObjectOwnership") or "") if len(rules) == 1 else ""
    if name not in _OWNERSHIPS:
        raise S3Fault("MalformedXML")
    details = call.store.read_bucket(call.bucket)[1]
    if name == _ENFORCED and details.acl:
        raise S3Fault(
            "InvalidBucketAclWithObjectOwnership",
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting.",
        )
    return _store_ownership(call, details, name)


def delete_ownership(call: Call) -> Response:
    """DeleteBucketOwnershipControls."""
    return _store_ownership(call, call.store.read_bucket(call.bucket)[1], "")


def _store_ownership(call: Call, details: Details, name: str) -> Response:
    kept = {header: text for header, text in details.headers.items() if header != OWNERSHIP}
    headers = {**kept, OWNERSHIP: name} if name else kept
    call.store.change_bucket(call.bucket, replace(details, headers=headers))
    return Response(200 if name else 204)


def _find_ownership(call: Call) -> str:
    """Empty for a bucket without ownership controls, and for one that is not there yet."""
    found = call.store.index.find_bucket(call.bucket)
    return found[1].headers.get(OWNERSHIP, "") if found else ""


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
    acl = read_acl(call)
    if call.read_small():
        raise S3Fault("NotImplemented", _NO_GRANTS)
    with call.store.committing:
        details = replace(_read_details(call), acl=acl)
        if call.key:
            call.store.change_details(call.bucket, call.find(), details)
        else:
            call.store.change_bucket(call.bucket, details)
    return Response(200)


def _read_details(call: Call) -> Details:
    return call.find().details if call.key else call.store.read_bucket(call.bucket)[1]
