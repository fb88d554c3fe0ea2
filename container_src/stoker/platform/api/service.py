"""A service of the platform as a value: its name, its wire protocol and a table of operations.

Adding an operation is one function and one row in the table of its service; adding a service is
one value in `all_services.make_services`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from stoker.platform.model.faults import ApiFault
from stoker.platform.model.signature import Message

Operation = Callable[[dict[str, Any]], Mapping[str, Any]]
"""From parameters that fit the service model to an answer; may block, and raise ApiFault.

Times are seconds since the epoch, in parameters and answers."""


class WireProtocol(Protocol):
    """How a service's requests and answers look on the wire."""

    @property
    def content_type(self) -> str: ...

    @property
    def signature_codes(self) -> Mapping[str, str]:
        """Kind of a refused signature → the error code of this protocol."""
        ...

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        """The operation a request names.

        Raises:
            ApiFault: it names none.
        """
        ...

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        """The parameters of a request.

        Raises:
            ApiFault: they do not fit the service model.
        """
        ...

    def missing(self, service: str, operation: str, known: str) -> ApiFault:
        """The fault for an operation that the platform does not serve."""
        ...

    def render(self, operation: str, answer: Mapping[str, Any], request_id: str) -> bytes: ...

    def render_fault(self, fault: ApiFault, request_id: str) -> bytes: ...


ProtocolName = Literal["cbor", "json", "query", ""]


def name_protocol(message: Message) -> ProtocolName:
    """Which protocol a request speaks, by its headers; empty if they name none."""
    headers = message.headers
    if headers.get("smithy-protocol") == "rpc-v2-cbor":
        return "cbor"
    if "x-amz-target" in headers:
        return "json"
    is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    return "query" if is_form else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One AWS service, as far as the platform serves it."""

    name: str
    """As signatures name it: `sagemaker`, `logs`."""

    protocol: WireProtocol
    operations: Mapping[str, Operation]
    more_protocols: Mapping[ProtocolName, WireProtocol] = field(default_factory=dict)
    """Those that a request may choose instead."""

    def speaking(self, message: Message) -> Service:
        """The service with the protocol of a request."""
        return replace(
            self, protocol=self.more_protocols.get(name_protocol(message), self.protocol)
        )

    def answer(self, message: Message, body: bytes, request_id: str) -> bytes:
        """The rendered answer to one request.

        Raises:
            ApiFault: the request is refused. An operation that is not served is refused before
                its parameters are read: a message about them would mislead.
        """
        name = self.protocol.read_operation(self.name, message, body)
        try:
            operation = self.operations[name]
        except KeyError:
            known = ", ".join(sorted(self.operations))
            raise self.protocol.missing(self.name, name, known) from None
        params = self.protocol.read_params(self.name, name, message, body)
        return self.protocol.render(name, operation(params), request_id)
