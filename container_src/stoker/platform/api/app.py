"""The platform's one address: every request goes to the service its signature names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web

from stoker.platform.api.connections import Connections
from stoker.platform.api.http_message import make_answer, make_request_id, read_message
from stoker.platform.api.mlflow_protocol import is_mlflow, require_password
from stoker.platform.api.s3_proxy import S3Proxy
from stoker.platform.api.service import Service
from stoker.platform.api.unserved import find_client, make_unserved
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import Credentials
from stoker.platform.model.signature import (
    Message,
    Signature,
    SignatureRefused,
    hash_payload,
    read_signature,
    require_signature,
)

_MOST_BODY_BYTES = 4 * 1024 * 1024
_BODY_SECONDS = 30
_AT_ONCE = 16  # calls wait for sqlite and for Docker, hardly for a core
_WAITING = 256
_FORBIDDEN = 403

_log = logging.getLogger(__name__)


def make_app(
    *,
    credentials: Credentials,
    services: Iterable[Service],
    s3_address: str,
    connections: Connections,
) -> web.Application:
    """The application that answers everything.

    Args:
        credentials: the keys every request must be signed with.
        services: everything but S3.
        s3_address: `host:port` of the embedded S3 server.
        connections: told when a request is being answered.
    """
    s3 = S3Proxy(s3_address)
    wire = _Wire(credentials, services, s3, connections)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", wire.answer)
    app.cleanup_ctx.append(wire.running)
    return app


class _Wire:
    def __init__(
        self,
        credentials: Credentials,
        services: Iterable[Service],
        s3: S3Proxy,
        connections: Connections,
    ) -> None:
        self._credentials = credentials
        self._connections = connections
        self._services = {service.name: service for service in services}
        self._s3 = s3
        # Each service has threads of its own: slow calls of one keep no other waiting.
        self._workers = {name: _Workers(name) for name in (*self._services, "")}

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        await self._s3.open()
        yield
        await self._s3.close()
        for workers in self._workers.values():
            workers.close()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        with self._connections.answering(request.transport):
            return await self._answer(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        message = read_message(request)
        try:
            signature = read_signature(message)
        except SignatureRefused:
            signature = None
        is_for_s3 = signature is not None and signature.service == "s3"
        is_for_mlflow = is_mlflow(message) and not is_for_s3  # a bucket may be named `api`
        # Without a signature: only S3 has objects that are public, and forms that carry their own
        # proof.
        if is_for_s3 or (signature is None and not is_for_mlflow):
            return await self._s3.answer(request, message)
        request_id = make_request_id()
        name = "mlflow" if is_for_mlflow or signature is None else signature.service
        service = self._find_service(name, message)
        try:
            return await self._answer_api(service, request, message, signature, request_id)
        except ApiFault as fault:
            return _refusal(service, fault, request_id)
        except SignatureRefused as refused:
            code = service.protocol.signature_codes[refused.kind]
            refusal = ApiFault(code, refused.message, status=_FORBIDDEN)
            return _refusal(service, refusal, request_id)
        except Exception:
            _log.exception("request %s to %s failed", request_id, name)
            ours = faults.internal(f"Internal error of the platform; its log names {request_id}.")
            return _refusal(service, ours, request_id)

    async def _answer_api(
        self,
        service: Service,
        request: web.Request,
        message: Message,
        signature: Signature | None,
        request_id: str,
    ) -> web.Response:
        body = await _read_body(request)
        keys, hashed = self._credentials, hash_payload(body)
        if signature is None:
            require_password(message, keys)
        else:
            require_signature(message, signature, credentials=keys, payload_hash=hashed)
        # A service that is only refused has no threads of its own.
        workers = self._workers.get(service.name, self._workers[""])
        answer = await workers.run(partial(service.answer, message, body, request_id))
        content_type = service.protocol.content_type
        return make_answer(answer, status=200, content_type=content_type, request_id=request_id)

    def _find_service(self, name: str, message: Message) -> Service:
        service = self._services.get(find_client(name, message))
        if service is None:
            return make_unserved(name, message, (*self._services, "s3"))
        return service.speaking(message)


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


def _refusal(service: Service, fault: ApiFault, request_id: str) -> web.Response:
    return make_answer(
        service.protocol.render_fault(fault, request_id),
        status=fault.status,
        content_type=service.protocol.content_type,
        request_id=request_id,
    )


class _Workers:
    """The threads that answer the calls of one service."""

    def __init__(self, service: str) -> None:
        self._gate = Gate(at_once=_AT_ONCE, waiting=_WAITING)
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"api-{service}")

    async def run(self, call: Callable[[], bytes]) -> bytes:
        async with self._gate.passed():
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Gate:
    """Lets so many in at once and so many wait; later requests are refused at once."""

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
