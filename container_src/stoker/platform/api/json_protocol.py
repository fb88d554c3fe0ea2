"""AWS JSON 1.1: the protocol of sagemaker and logs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from stoker.platform.api.service_model import known_operation, require_valid
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault

CONTENT_TYPE = "application/x-amz-json-1.1"
_PREFIXES = {"sagemaker": "SageMaker", "logs": "Logs_20140328"}
SERVICES = tuple(_PREFIXES)


def read_call(service: str, target: str, body: bytes) -> tuple[str, dict[str, Any]]:
    """The operation and its parameters, held against the service model.

    Args:
        service: one of SERVICES.
        target: the header X-Amz-Target.
        body: the request's body.

    Raises:
        ApiFault: no such operation, no JSON, or parameters that do not fit.
    """
    prefix, _, operation = target.rpartition(".")
    if prefix != _PREFIXES[service] or not known_operation(service, operation):
        raise faults.unknown_operation(
            f"'{target}' is not an operation of {service} (expected the header X-Amz-Target:"
            f" {_PREFIXES[service]}.<Operation>)."
        )
    try:
        params = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise ApiFault("SerializationException", f"The body is not JSON: {error}") from error
    return operation, require_valid(service, operation, params)


def render(answer: dict[str, Any]) -> bytes:
    """An answer; times become seconds since the epoch."""
    return json.dumps(answer, default=_plain).encode()


def render_fault(fault: ApiFault) -> bytes:
    """A refusal."""
    return json.dumps({"__type": fault.code, "message": fault.message}).encode()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be answered as JSON")
