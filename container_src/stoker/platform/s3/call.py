"""One S3 request with what is known about it; what all operations need of it."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from stoker.platform.model.root import Credentials
from stoker.platform.model.signature import Signature
from stoker.platform.s3.faults import S3Fault
from stoker.platform.s3.http_server import Request, Response, parse_digits
from stoker.platform.s3.object_store import ObjectInfo, ObjectStore

_MOST_XML_BYTES = 4 * 1024 * 1024
# S3's limit, in bytes of UTF-8.
_MOST_KEY_BYTES = 1024
_XML = "application/xml"


@dataclass(slots=True, kw_only=True)
class Call:
    """A request to a bucket or an object."""

    request: Request
    store: ObjectStore
    credentials: Credentials
    bucket: str
    key: bytes
    params: dict[str, str]
    signature: Signature | None
    """None for the few that carry another proof."""

    def header(self, name: str) -> str:
        """A header; empty without one."""
        return self.request.headers.get(name, "")

    def number(self, name: str, default: int, most: int = 2**31) -> int:
        """A parameter that is a number.

        Raises:
            S3Fault: InvalidArgument.
        """
        return self._parse(name, self.params.get(name), default, most)

    def header_number(self, name: str, default: int, most: int = 2**31) -> int:
        """The same of a header."""
        return self._parse(name, self.request.headers.get(name), default, most)

    def _parse(self, name: str, text: str | None, default: int, most: int) -> int:
        if text is None:
            return default
        number = parse_digits(text)
        if number is None or number > most:
            raise S3Fault("InvalidArgument", f"Argument {name} must be between 0 and {most}.")
        return number

    def read_small(self) -> bytes:
        """The body of a request that is XML or a form, as it was sent."""
        body = bytearray()
        for piece in self.request.read_body():
            body += piece
            if len(body) > _MOST_XML_BYTES:
                raise S3Fault("EntityTooLarge")
        return bytes(body)

    def require_only_version(self) -> None:
        """
        Raises:
            S3Fault: NoSuchVersion: the request is about a version; each object has one, `null`.
        """
        if self.params.get("versionId", "null") != "null":
            raise S3Fault("NoSuchVersion", "The specified version does not exist.")

    def find(self) -> ObjectInfo:
        """The object that the request is about.

        Raises:
            S3Fault: NoSuchKey or NoSuchVersion.
        """
        self.require_only_version()
        info = self.store.find(self.bucket, self.key)
        if info is None:
            raise S3Fault("NoSuchKey")
        return info


def require_key(key: bytes) -> None:
    """
    Raises:
        S3Fault: no object can have this key.
    """
    if not key:
        raise S3Fault("InvalidArgument", "User key must have a length greater than 0.")
    if len(key) > _MOST_KEY_BYTES:
        raise S3Fault("KeyTooLongError")


def answer_xml(body: bytes, status: int = 200) -> Response:
    """An answer that is XML."""
    return Response(status, {"Content-Type": _XML}, body)


def http_date(seconds: float) -> str:
    """A time as HTTP headers have it."""
    return email.utils.formatdate(seconds, usegmt=True)


def iso_date(seconds: float) -> str:
    """A time as S3's XML has it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def parse_http_date(text: str) -> float | None:
    """A time of a header; None if it is not one."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def parse_pairs(text: str) -> Iterator[tuple[str, str]]:
    """The values of a header with pairs as of a form."""
    return iter(parse_qsl(text, keep_blank_values=True))
