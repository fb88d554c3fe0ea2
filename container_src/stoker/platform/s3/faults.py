"""Refusals in S3's own words."""

from __future__ import annotations

from collections.abc import Mapping

_STATUS = {
    **dict.fromkeys(("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"), 403),
    **dict.fromkeys(("RequestTimeTooSkewed", "ExpiredToken"), 403),
    **dict.fromkeys(("NoSuchBucket", "NoSuchKey", "NoSuchUpload", "NoSuchTagSet"), 404),
    **dict.fromkeys(("NoSuchVersion", "OwnershipControlsNotFoundError"), 404),
    "MethodNotAllowed": 405,
    "RequestTimeout": 400,
    **dict.fromkeys(("BucketAlreadyExists", "BucketAlreadyOwnedByYou", "BucketNotEmpty"), 409),
    **dict.fromkeys(("ConditionalRequestConflict",), 409),
    "MissingContentLength": 411,
    "PreconditionFailed": 412,
    "InvalidRange": 416,
    "InternalError": 500,
    "NotImplemented": 501,
    "SlowDown": 503,
    "InsufficientStorage": 507,
}
_MESSAGES = {
    "AccessControlListNotSupported": "The bucket does not allow ACLs.",
    "AccessDenied": "Access Denied",
    "BadDigest": "The checksum you specified did not match what we received.",
    "BucketNotEmpty": "The bucket you tried to delete is not empty.",
    "EntityTooSmall": "Your proposed upload is smaller than the minimum allowed size.",
    "EntityTooLarge": "Your proposed upload exceeds the maximum allowed size.",
    "IncompleteBody": "The request body did not come whole.",
    "InvalidBucketName": "The specified bucket is not valid.",
    "InvalidDigest": "The Content-MD5 or checksum value that you specified is not valid.",
    "InvalidPart": "One or more of the specified parts could not be found, or has another ETag.",
    "InvalidPartOrder": "The list of parts was not in ascending order.",
    "InvalidRange": "The requested range is not satisfiable.",
    "InvalidTag": "The tag provided was not a valid tag.",
    "KeyTooLongError": "Your key is too long: 1,024 bytes are allowed.",
    "MalformedXML": "The XML you provided was not well-formed or did not validate.",
    "MetadataTooLarge": "Your metadata headers exceed the maximum allowed metadata size.",
    "MethodNotAllowed": "The specified method is not allowed against this resource.",
    "MissingContentLength": "You must provide the Content-Length HTTP header.",
    "OwnershipControlsNotFoundError": "The bucket ownership controls were not found.",
    "NoSuchBucket": "The specified bucket does not exist.",
    "NoSuchKey": "The specified key does not exist.",
    "NoSuchTagSet": "The TagSet does not exist.",
    "NoSuchUpload": "The specified upload does not exist: it was completed or aborted.",
    "NotImplemented": "Not emulated by the local platform.",
    "PreconditionFailed": "At least one of the pre-conditions you specified did not hold.",
    "XAmzContentSHA256Mismatch": "The x-amz-content-sha256 you specified does not match the body.",
}
_BAD_REQUEST = 400


class S3Fault(Exception):
    """A request that is refused."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        status: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.message = message or _MESSAGES.get(code, code)
        self.status = status or _STATUS.get(code, _BAD_REQUEST)
        self.headers = headers or {}
        super().__init__(f"{code}: {self.message}")
