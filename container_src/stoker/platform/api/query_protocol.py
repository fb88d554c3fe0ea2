"""AWS Query: a form in, XML out; the protocol of sts and iam."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault

CONTENT_TYPE = "text/xml"
_MOST_FIELDS = 1000
_NAMESPACES = {
    "sts": "https://sts.amazonaws.com/doc/2011-06-15/",
    "iam": "https://iam.amazonaws.com/doc/2010-05-08/",
}
SERVICES = tuple(_NAMESPACES)

Value = str | Mapping[str, "Value"] | list["Value"]


def read_call(query: str, body: bytes) -> tuple[str, dict[str, str]]:
    """The action and its parameters, flat as they are sent (`ActionNames.member.1`).

    Raises:
        ApiFault: no action, or too many fields.
    """
    try:
        text = body.decode() or query
        form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise faults.validation(f"The body is not a form: {error}") from error
    action = form.pop("Action", "")
    if not action:
        raise ApiFault("MissingAction", "The form has no field 'Action'.")
    return action, form


def members(form: Mapping[str, str], name: str) -> list[str]:
    """The items of a list, which a form holds as `name.member.N`."""
    prefix = f"{name}.member."
    numbered = [
        (int(key.removeprefix(prefix)), value)
        for key, value in form.items()
        if key.startswith(prefix) and key.removeprefix(prefix).isdecimal()
    ]
    return [value for _, value in sorted(numbered)]


def render(service: str, action: str, result: Mapping[str, Value], request_id: str) -> bytes:
    """An answer."""
    return (
        f'<{action}Response xmlns="{_NAMESPACES[service]}">'
        f"<{action}Result>{_xml(result)}</{action}Result>"
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        f"</{action}Response>"
    ).encode()


def render_fault(service: str, fault: ApiFault, request_id: str) -> bytes:
    """A refusal; anything but XML would end SDK v3's ModelTrainer at its construction."""
    error = {"Type": "Sender", "Code": fault.code, "Message": fault.message}
    namespace = _NAMESPACES.get(service, _NAMESPACES["sts"])
    return (
        f'<ErrorResponse xmlns="{namespace}"><Error>{_xml(error)}</Error>'
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def _xml(value: Value) -> str:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return "".join(f"<member>{_xml(item)}</member>" for item in value)
    return "".join(f"<{name}>{_xml(item)}</{name}>" for name, item in value.items())
