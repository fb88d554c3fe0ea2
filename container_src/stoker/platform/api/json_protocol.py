"""AWS JSON 1.1 and 1.0, the protocol of sagemaker and logs, and REST-JSON of sagemaker-metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoker.platform.api.http_message import read_json
from stoker.platform.api.service_model import find_operation, known_operation, require_valid
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.signature import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonProtocol:
    """JSON in, JSON out; the header X-Amz-Target names the operation."""

    target_prefix: str
    """What precedes the operation in X-Amz-Target: `SageMaker`, `Logs_20140328`."""

    content_type: str = "application/x-amz-json-1.1"

    @property
    def signature_codes(self) -> Mapping[str, str]:
        return SIGNATURE_CODES

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        target = message.headers.get("x-amz-target", "")
        prefix, _, operation = target.rpartition(".")
        if prefix != self.target_prefix or not known_operation(service, operation):
            raise faults.unknown_operation(
                f"'{target}' is not an operation of {service} (expected the header X-Amz-Target:"
                f" {self.target_prefix}.<Operation>)."
            )
        return operation

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        try:
            params = read_json(body)
        except ValueError as error:
            raise ApiFault("SerializationException", f"The body is not JSON: {error}") from error
        return require_valid(service, operation, params)

    def missing(self, service: str, operation: str, known: str) -> ApiFault:
        return faults.unknown_operation(
            f"{service}:{operation} is not emulated by the local platform. It has: {known}."
        )

    def render(self, operation: str, answer: Mapping[str, Any], request_id: str) -> bytes:
        return json.dumps(answer, default=_plain).encode()

    def render_fault(self, fault: ApiFault, request_id: str) -> bytes:
        return json.dumps({"__type": fault.code, "message": fault.message}).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class RestJsonProtocol(JsonProtocol):
    """JSON in, JSON out; method and path name the operation.

    Only for services whose members are all in the body, as those of sagemaker-metrics are.
    """

    target_prefix: str = ""
    content_type: str = "application/json"

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        found = find_operation(service, message.method, message.path)
        if found is None:
            raise faults.unknown_operation(
                f"{message.method} {message.path} is not an operation of {service}."
            )
        return found


SIGNATURE_CODES = {
    "missing": "MissingAuthenticationTokenException",
    "malformed": "IncompleteSignatureException",
    "unknown_key": "UnrecognizedClientException",
    "mismatch": "InvalidSignatureException",
    "expired": "InvalidSignatureException",
}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be answered as JSON")
