"""XML as S3 sends and takes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


def read_tags(root: Element) -> dict[str, str]:
    """The tags of a Tagging element.

    Raises:
        S3Fault: they are not valid.
    """
    sets = root.findall("TagSet")
    if len(sets) != 1:
        raise S3Fault("MalformedXML")
    pairs = [(tag.findtext("Key"), tag.findtext("Value")) for tag in sets[0].findall("Tag")]
    if any(key is None or value is None for key, value in pairs):
        raise S3Fault("MalformedXML")
    return check_tags([(key or "", value or "") for key, value in pairs], most=50)


def check_tags(pairs: Sequence[tuple[str, str]], *, most: int = 10) -> dict[str, str]:
    """Tags, if S3 would take them.

    Raises:
        S3Fault: there are too many, one twice, or one is too long.
    """
    tags = dict(pairs)
    if len(tags) != len(pairs):
        raise S3Fault("InvalidTag", "Cannot provide multiple Tags with the same key")
    if len(tags) > most:
        raise S3Fault("InvalidTag", f"Object tags cannot be greater than {most}")
    for key, value in tags.items():
        if not 0 < len(key) <= 128 or len(value) > 256:
            raise S3Fault("InvalidTag", "A key has 1 to 128 characters, a value at most 256.")
    return tags


def make_tags(tags: dict[str, str]) -> bytes:
    """A Tagging element."""
    each = (element("Tag", leaves([("Key", k), ("Value", v)])) for k, v in sorted(tags.items()))
    return document("Tagging", element("TagSet", *each))
