"""AWS REST-JSON, as far as services need it whose members are all in the body."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.service_model import find_operation
from stoker.platform.model import faults
from stoker.platform.model.signature import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class RestJsonProtocol(JsonProtocol):
    """JSON in, JSON out; method and path name the operation."""

    target_prefix: str = ""
    content_type: str = "application/json"

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        found = find_operation(service, message.method, message.path)
        if found is None:
            raise faults.unknown_operation(
                f"{message.method} {message.path} is not an operation of {service}."
            )
        return found
