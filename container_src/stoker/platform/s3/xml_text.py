"""XML as S3 sends and takes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from stoker.platform.s3.faults import S3Fault

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
Element = ElementTree.Element
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
# Not allowed in XML 1.0 at all; S3 sends them as references, which clients do accept.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\r\ufffe\uffff]")


def element(name: str, *content: str) -> str:
    """An element of elements that are text already."""
    return f"<{name}>{''.join(content)}</{name}>"


def leaf(name: str, value: object) -> str:
    """An element with a value; nothing for None."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else escape_text(str(value))
    return f"<{name}>{text}</{name}>"


def leaves(pairs: Iterable[tuple[str, object]]) -> str:
    """Elements with values, one after another."""
    return "".join(leaf(name, value) for name, value in pairs)


def document(name: str, *content: str, namespace: str = NAMESPACE) -> bytes:
    """A whole answer."""
    return f'{XML_HEAD}<{name} xmlns="{namespace}">{"".join(content)}</{name}>'.encode()


def make_error(code: str, message: str, resource: str, request_id: str) -> bytes:
    """A refusal."""
    fields = [("Code", code), ("Message", message), ("Resource", resource)]
    return (XML_HEAD + element("Error", leaves(fields), leaf("RequestId", request_id))).encode()


def escape_text(text: str) -> str:
    """A text in the form that an element can hold."""
    return _CONTROL.sub(lambda found: f"&#{ord(found[0])};", escape(text))


def parse(body: bytes, name: str) -> Element:
    """The root element of a request's body, without namespaces.

    Raises:
        S3Fault: MalformedXML: it is not XML, or another element.
    """
    # No DTD, no entities: S3 has none. In UTF-16 they would not be seen here.
    if b"<!" in body or b"\0" in body:
        raise S3Fault("MalformedXML")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - entities are refused above
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise S3Fault("MalformedXML") from error
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
    if root.tag != name:
        raise S3Fault("MalformedXML")
    return root
