"""The platform's one address: every request goes to the service its signature names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from aiohttp import web

from stoker.platform.api import identity, json_protocol, query_protocol
from stoker.platform.api.http_message import make_answer, make_request_id, read_message
from stoker.platform.api.operations import Operations
from stoker.platform.api.s3_proxy import S3Proxy
from stoker.platform.api.signature import (
    Message,
    Signature,
    SignatureRefused,
    hash_payload,
    read_signature,
    require_signature,
)
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import Credentials

_MOST_BODY_BYTES = 4 * 1024 * 1024
_BODY_SECONDS = 30
_AT_ONCE = 16
_WAITING = 256
_FORBIDDEN = 403
# The same refusal has another name in each protocol.
_JSON_CODES = {
    "missing": "MissingAuthenticationTokenException",
    "malformed": "IncompleteSignatureException",
    "unknown_key": "UnrecognizedClientException",
    "mismatch": "InvalidSignatureException",
    "expired": "InvalidSignatureException",
}
_QUERY_CODES = {
    "missing": "MissingAuthenticationToken",
    "malformed": "IncompleteSignature",
    "unknown_key": "InvalidClientTokenId",
    "mismatch": "SignatureDoesNotMatch",
    "expired": "SignatureDoesNotMatch",
}

_log = logging.getLogger(__name__)


def make_app(
    *, credentials: Credentials, operations: Operations, s3_address: str
) -> web.Application:
    """The application that answers everything.

    Args:
        credentials: the keys every request must be signed with.
        operations: answers sagemaker and logs.
        s3_address: `host:port` of the embedded S3 server.
    """
    wire = _Wire(credentials, operations, S3Proxy(s3_address, credentials))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", wire.answer)
    app.cleanup_ctx.append(wire.running)
    return app


class _Wire:
    def __init__(self, credentials: Credentials, operations: Operations, s3: S3Proxy) -> None:
        self._credentials = credentials
        self._operations = operations
        self._s3 = s3
        self._gate = Gate(at_once=_AT_ONCE, waiting=_WAITING)
        # Threads of its own: a flood of calls must not take those that others wait for.
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="api")

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        await self._s3.open()
        yield
        await self._s3.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        message = read_message(request)
        try:
            signature = read_signature(message)
        except SignatureRefused:
            signature = None
        if signature is None or signature.service == "s3":
            return await self._s3.answer(request, message)
        request_id = make_request_id()
        try:
            return await self._answer_api(request, message, signature, request_id)
        except ApiFault as fault:
            return _refusal(signature.service, fault, request_id)
        except SignatureRefused as refused:
            return _refusal(signature.service, _signature_fault(signature, refused), request_id)
        except Exception:
            _log.exception("request %s to %s failed", request_id, signature.service)
            ours = faults.internal(f"The platform failed; its log tells of {request_id}.")
            return _refusal(signature.service, ours, request_id)

    async def _answer_api(
        self, request: web.Request, message: Message, signature: Signature, request_id: str
    ) -> web.Response:
        body = await _read_body(request)
        hashed = hash_payload(body)
        require_signature(message, signature, credentials=self._credentials, payload_hash=hashed)
        service = signature.service
        if service in json_protocol.SERVICES:
            target = message.headers.get("x-amz-target", "")
            async with self._gate.passed():
                answer = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._call, service, target, body
                )
            content_type = json_protocol.CONTENT_TYPE
        elif service in query_protocol.SERVICES:
            action, form = query_protocol.read_call(message.query, body)
            result = identity.answer(service, action, form)
            answer = query_protocol.render(service, action, result, request_id)
            content_type = query_protocol.CONTENT_TYPE
        else:
            known = ", ".join((*json_protocol.SERVICES, *query_protocol.SERVICES, "s3"))
            raise faults.unknown_operation(
                f"The local platform has no service '{service}'. It has: {known}."
            )
        return make_answer(answer, status=200, content_type=content_type, request_id=request_id)

    def _call(self, service: str, target: str, body: bytes) -> bytes:
        operation, params = json_protocol.read_call(service, target, body)
        return json_protocol.render(self._operations.call(service, operation, params))


async def _read_body(request: web.Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > _MOST_BODY_BYTES:
                    raise ApiFault(
                        "RequestEntityTooLargeException",
                        f"The request is larger than {_MOST_BODY_BYTES} bytes.",
                        status=413,
                    )
    except (TimeoutError, ConnectionError, web.RequestPayloadError) as error:
        raise ApiFault(
            "RequestTimeoutException", "The request's body did not come whole.", status=408
        ) from error
    return bytes(body)


def _signature_fault(signature: Signature, refused: SignatureRefused) -> ApiFault:
    query = signature.service in query_protocol.SERVICES
    codes: Mapping[str, str] = _QUERY_CODES if query else _JSON_CODES
    return ApiFault(codes[refused.kind], refused.message, status=_FORBIDDEN)


def _refusal(service: str, fault: ApiFault, request_id: str) -> web.Response:
    if service in query_protocol.SERVICES:
        body = query_protocol.render_fault(service, fault, request_id)
        content_type = query_protocol.CONTENT_TYPE
    else:
        body = json_protocol.render_fault(fault)
        content_type = json_protocol.CONTENT_TYPE
    return make_answer(body, status=fault.status, content_type=content_type, request_id=request_id)


class Gate:
    """Lets so many in at once and so many wait; whoever comes later is refused at once."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most_waiting = waiting
        self._waiting = 0

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Wait for a place, hold it, give it back.

        Raises:
            ApiFault: ThrottlingException, which every SDK answers by a later try.
        """
        if self._waiting >= self._most_waiting:
            raise ApiFault("ThrottlingException", "Rate exceeded")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
