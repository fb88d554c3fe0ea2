"""Settings that are not emulated: to read one says that it is not set; the rest is refused."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.platform.s3.call import Call, answer_xml
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Response
from stoker.platform.s3.xml_text import document

_NOT_EMULATED = {
    *("accelerate", "analytics", "cors", "encryption", "intelligent-tiering", "inventory"),
    *("legal-hold", "lifecycle", "logging", "metrics", "notification", "object-lock"),
    *("policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment"),
    *("restore", "retention", "select", "torrent", "website"),
}
# What S3 answers for a bucket that has none.
_UNSET_FAULTS: Mapping[str, str] = {
    "cors": "NoSuchCORSConfiguration",
    "encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "lifecycle": "NoSuchLifecycleConfiguration",
    "object-lock": "ObjectLockConfigurationNotFoundError",
    "policy": "NoSuchBucketPolicy",
    "policyStatus": "NoSuchBucketPolicy",
    "publicAccessBlock": "NoSuchPublicAccessBlockConfiguration",
    "replication": "ReplicationConfigurationNotFoundError",
    "website": "NoSuchWebsiteConfiguration",
}
_UNSET_DOCUMENTS: Mapping[str, str] = {
    "accelerate": "AccelerateConfiguration",
    "logging": "BucketLoggingStatus",
    "notification": "NotificationConfiguration",
}
# Headers that would be ignored, with what a client must not believe then.
_REFUSED_HEADERS: Mapping[str, str] = {
    "x-amz-server-side-encryption-customer-algorithm": "the object would not be encrypted",
    "x-amz-write-offset-bytes": "the object would be replaced, not appended to",
    "x-amz-object-lock-mode": "the object could be removed",
}
_NOT_FOUND = 404


def find_unset(call: Call) -> str:
    """The setting that a request is about; empty if it is about none of them.

    Raises:
        S3Fault: NotImplemented: it asks for something that does not exist here, and would be
            taken for another request otherwise.
    """
    for header, consequence in _REFUSED_HEADERS.items():
        if call.header(header):
            raise S3Fault("NotImplemented", f"{header} is not emulated here: {consequence}.")
    return next(iter(_NOT_EMULATED & {*call.params}), "")


def require_known(call: Call, known: set[str]) -> None:
    """
    Raises:
        S3Fault: NotImplemented: the address names a part of the bucket or object that is unknown.
    """
    bare = {each for each in call.request.query.split("&") if each and "=" not in each}
    if unknown := sorted(bare - known):
        raise S3Fault("NotImplemented", f"{', '.join(unknown)}: not emulated here.")


def answer_unset(call: Call) -> Response:
    """A read of a setting: it is not set."""
    name = find_unset(call)
    if call.request.method != "GET" or call.key or name not in {*_UNSET_FAULTS, *_UNSET_DOCUMENTS}:
        raise S3Fault("NotImplemented", f"{name}: not emulated here.")
    call.store.bucket_dir(call.bucket)
    if name in _UNSET_FAULTS:
        text = f"The bucket has no such setting: {name}."
        raise S3Fault(_UNSET_FAULTS[name], text, status=_NOT_FOUND)
    return answer_xml(document(_UNSET_DOCUMENTS[name]))
