"""AWS Query: a form in, XML out; the protocol of sts, iam and older clients of CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from stoker.platform.api.service_model import (
    convert_answer,
    known_operation,
    parse_form,
    require_valid,
)
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.signature import Message

_MOST_FIELDS = 1000
_FORBIDDEN = 403

Value = str | Mapping[str, "Value"] | list["Value"]


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryProtocol:
    """The field `Action` names the operation; lists are flat (`ActionNames.member.1`)."""

    namespace: str
    """Of the XML: https://sts.amazonaws.com/doc/2011-06-15/."""

    content_type: str = "text/xml"

    @property
    def signature_codes(self) -> Mapping[str, str]:
        return _SIGNATURE_CODES

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        action = _read_form(message, body).get("Action", "")
        if not action:
            raise ApiFault("MissingAction", "The form has no field 'Action'.")
        return action

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        return {k: v for k, v in _read_form(message, body).items() if k != "Action"}

    def missing(self, service: str, operation: str, known: str) -> ApiFault:
        # AccessDenied and no other code: SDK v3 then warns and continues.
        return ApiFault(
            "AccessDenied",
            f"{service}:{operation} is not emulated by the local platform. It has: {known}.",
            status=_FORBIDDEN,
        )

    def render(self, operation: str, answer: Mapping[str, Any], request_id: str) -> bytes:
        return (
            f'<{operation}Response xmlns="{self.namespace}">'
            f"<{operation}Result>{to_xml(answer)}</{operation}Result>"
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
            f"</{operation}Response>"
        ).encode()

    def render_fault(self, fault: ApiFault, request_id: str) -> bytes:
        # Anything but XML would end SDK v3's ModelTrainer at its construction.
        error = {"Type": "Sender", "Code": fault.code, "Message": fault.message}
        return (
            f'<ErrorResponse xmlns="{self.namespace}"><Error>{to_xml(error)}</Error>'
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        ).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelledQueryProtocol(QueryProtocol):
    """The same, with parameters and answers of the types of the service model."""

    service: str

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        action = QueryProtocol.read_operation(self, service, message, body)
        if not known_operation(service, action):
            raise ApiFault("InvalidAction", f"'{action}' is not an operation of {service}.")
        return action

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        form = _read_form(message, body)
        return require_valid(service, operation, parse_form(service, operation, form))

    def render(self, operation: str, answer: Mapping[str, Any], request_id: str) -> bytes:
        texts = convert_answer(self.service, operation, answer, _to_text)
        return QueryProtocol.render(self, operation, texts, request_id)


def _to_text(kind: str, value: Any) -> str:  # noqa: ANN401 - any value of an answer
    if kind == "timestamp":
        return datetime.fromtimestamp(value, UTC).isoformat()
    return str(value).lower() if kind == "boolean" else str(value)


def members(form: Mapping[str, str], name: str) -> list[str]:
    """The items of a list, which a form holds as `name.member.N`."""
    prefix = f"{name}.member."
    numbered = [
        (int(key.removeprefix(prefix)), value)
        for key, value in form.items()
        if key.startswith(prefix) and key.removeprefix(prefix).isdecimal()
    ]
    return [value for _, value in sorted(numbered)]


_SIGNATURE_CODES = {
    "missing": "MissingAuthenticationToken",
    "malformed": "IncompleteSignature",
    "unknown_key": "InvalidClientTokenId",
    "mismatch": "SignatureDoesNotMatch",
    "expired": "SignatureDoesNotMatch",
}


def _read_form(message: Message, body: bytes) -> dict[str, str]:
    try:
        # A client may send the form as the query of a GET, too.
        text = body.decode() or message.query
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise faults.validation(f"The body is not a form: {error}") from error


def to_xml(value: Value) -> str:
    """A value as elements; items of a list are `member`."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return "".join(f"<member>{to_xml(item)}</member>" for item in value)
    return "".join(f"<{name}>{to_xml(item)}</{name}>" for name, item in value.items())
