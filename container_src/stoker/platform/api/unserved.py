"""Services the platform does not have: refused in their own protocol, so that SDKs show the text.

The request itself tells the protocol; a service's model would take long to load for one refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs

from stoker.platform.api.cbor import encode
from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.query_protocol import QueryProtocol, Value, to_xml
from stoker.platform.api.service import Service, WireProtocol, name_protocol
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.signature import Message

# Their clients find the code of an error in XML only.
_REST_XML = ("cloudfront", "route53")
# Clients that sign as `sagemaker` but speak REST: the start of their paths → their name.
_SAGEMAKER_CLIENTS = {
    "/endpoints/": "sagemaker-runtime",
    "/BatchPutMetrics": "sagemaker-metrics",
    "/BatchGetMetrics": "sagemaker-metrics",
    "/FeatureGroup/": "sagemaker-featurestore-runtime",
    "/BatchGetRecord": "sagemaker-featurestore-runtime",
    "/human-loops": "sagemaker-a2i-runtime",
}


def make_unserved(name: str, message: Message, served: Iterable[str]) -> Service:
    """A service that refuses every operation, after its signature was verified as any other's.

    Args:
        name: as the signature has it.
        message: the request, which decides the protocol.
        served: what the platform has, for the text.
    """
    spoken = name_protocol(message)
    protocol: WireProtocol
    if spoken == "cbor":
        protocol = _Cbor(served=tuple(served))
    elif spoken == "json":
        content_type = message.headers.get("content-type", "application/x-amz-json-1.1")
        protocol = _Json(served=tuple(served), content_type=content_type)
    elif spoken == "query":
        protocol = _Ec2(served=tuple(served)) if name == "ec2" else _Query(served=tuple(served))
    elif name in _REST_XML:
        protocol = _Query(served=tuple(served))
    else:
        protocol = _Json(served=tuple(served), content_type="application/json")
    return Service(name=name, protocol=protocol, operations={})


def find_client(name: str, message: Message) -> str:
    """The service of a request: some REST clients sign as `sagemaker`, and their paths differ."""
    if name != "sagemaker" or "x-amz-target" in message.headers:
        return name
    clients = _SAGEMAKER_CLIENTS.items()
    return next((own for start, own in clients if message.path.startswith(start)), name)


def _make_fault(service: str, operation: str, served: tuple[str, ...], code: str) -> ApiFault:
    return ApiFault(
        code,
        f"{service}:{operation} is not emulated by the local platform. It has: "
        f"{', '.join(served)}. To reach AWS itself, run this where AWS_ENDPOINT_URL is not set.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Json(JsonProtocol):
    target_prefix: str = ""
    served: tuple[str, ...]

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        name = find_client(service, message)
        _, _, target = message.headers.get("x-amz-target", "").rpartition(".")
        operation = target or f"{message.method} {message.path}"
        code = faults.unknown_operation("").code
        raise _make_fault(name, operation, self.served, code)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cbor(_Json):
    content_type: str = "application/cbor"

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        operation = message.path.rpartition("/")[2]
        raise _make_fault(service, operation, self.served, faults.unknown_operation("").code)

    def render_fault(self, fault: ApiFault, request_id: str) -> bytes:
        return encode({"__type": fault.code, "message": fault.message})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Query(QueryProtocol):
    namespace: str = ""
    served: tuple[str, ...]

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        form = parse_qs(body.decode(errors="replace"))
        operation = form.get("Action", [f"{message.method} {message.path}"])[0]
        raise _make_fault(service, operation, self.served, "InvalidAction")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ec2(_Query):
    def render_fault(self, fault: ApiFault, request_id: str) -> bytes:
        errors: Value = {"Error": {"Code": fault.code, "Message": fault.message}}
        answer: Value = {"Response": {"Errors": errors, "RequestID": request_id}}
        return to_xml(answer).encode()
