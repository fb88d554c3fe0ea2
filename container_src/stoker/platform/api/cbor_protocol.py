"""Smithy RPC v2 with CBOR: what botocore speaks to CloudWatch by default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.platform.api import cbor
from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.service_model import convert_answer, known_operation, require_valid
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.signature import Message

_PATH = re.compile(r".*/service/[^/]+/operation/([^/]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class CborProtocol(JsonProtocol):
    """The path names the operation: /service/<target prefix>/operation/<operation>."""

    service: str
    """For the types of answers."""

    target_prefix: str = ""
    content_type: str = "application/cbor"

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        found = _PATH.fullmatch(message.path)
        if found is None or not known_operation(service, found[1]):
            raise faults.unknown_operation(
                f"'{message.path}' is not an operation of {service} (expected the path"
                " /service/<name>/operation/<Operation>)."
            )
        return found[1]

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        try:
            params = cbor.decode(body) if body else {}
        except (ValueError, RecursionError) as error:
            raise ApiFault("SerializationException", f"The body is not CBOR: {error}") from error
        return require_valid(service, operation, params)

    def render(self, operation: str, answer: Mapping[str, Any], request_id: str) -> bytes:
        return cbor.encode(convert_answer(self.service, operation, answer, _to_cbor))

    def render_fault(self, fault: ApiFault, request_id: str) -> bytes:
        return cbor.encode({"__type": fault.code, "message": fault.message})


def _to_cbor(kind: str, value: Any) -> object:  # noqa: ANN401 - any value of an answer
    if kind == "timestamp":
        return cbor.Time(float(value))
    return float(value) if kind in ("double", "float") else value
