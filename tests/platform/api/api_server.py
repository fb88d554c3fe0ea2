"""The wire alone, served for real on loopback: no jobs, no engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any
from urllib.request import Request, urlopen

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as BotoCredentials

from stoker.platform.api.app import make_app
from stoker.platform.api.connections import (
    Connections,
    leave_out_malformed_requests,
    serving,
)
from stoker.platform.api.identity import IAM, STS
from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.service import Operation, Service, WireProtocol
from stoker.platform.model.root import REGION, Credentials

KEYS = Credentials(access_key="STOKERTESTKEY", secret_key="secret-of-the-tests")
DEADLINE_SECONDS = 120


class Operations:
    """Remembers what arrived and answers what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.answer: Callable[[], dict[str, Any]] = dict

    def service(self, name: str, protocol: WireProtocol) -> Service:
        return Service(name=name, protocol=protocol, operations=_EveryOperation(self, name))

    def call(self, service: str, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((service, operation, params))
        return self.answer()


class _EveryOperation(dict[str, Operation]):
    """A table that has every operation of the service's model."""

    def __init__(self, operations: Operations, service: str) -> None:
        self._operations = operations
        self._service = service

    def __missing__(self, operation: str) -> Operation:
        return partial(self._operations.call, self._service, operation)


class WireServer:
    def __init__(self, endpoint: str, operations: Operations, keys: Credentials) -> None:
        self.endpoint = endpoint
        self.operations = operations
        self.keys = keys

    def boto(self, service: str, *, keys: Credentials | None = None, **config: Any) -> Any:
        keys = keys or self.keys
        config.setdefault("retries", {"total_max_attempts": 1})
        return _session().client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            config=Config(proxies={}, read_timeout=DEADLINE_SECONDS, **config),
        )

    def signed(self, service: str, body: bytes, **headers: str) -> Request:
        """A request as botocore signs it, but with any body."""
        request = AWSRequest("POST", f"{self.endpoint}/", headers=headers, data=body)
        keys = BotoCredentials(self.keys.access_key, self.keys.secret_key)
        SigV4Auth(keys, service, REGION).add_auth(request)
        return Request(f"{self.endpoint}/", data=body, headers=dict(request.headers.items()))

    def send(self, request: Request) -> bytes:
        with urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            return answer.read()


@cache
def _session() -> Any:
    return boto3.session.Session()  # one for all: it keeps the service models it has read


async def _all_closed(loop: Any) -> None:
    """Wait for connections that close only when the other side takes or drops what was sent."""
    deadline = loop.time() + DEADLINE_SECONDS
    only_the_loops_own = 1
    while len(loop._selector.get_map()) > only_the_loops_own:
        assert loop.time() < deadline, "a connection does not close"
        await asyncio.sleep(0.02)


@contextmanager
def running_api(
    s3_address: str, keys: Credentials = KEYS, silent_seconds: float = 60
) -> Iterator[WireServer]:
    operations = Operations()
    services = (
        operations.service("sagemaker", JsonProtocol(target_prefix="SageMaker")),
        operations.service("logs", JsonProtocol(target_prefix="Logs_20140328")),
        STS,
        IAM,
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(DEADLINE_SECONDS)

    connections = Connections(silent_seconds)
    leave_out_malformed_requests()
    app = make_app(
        credentials=keys,
        services=services,
        s3_address=s3_address,
        connections=connections,
    )
    served = serving(app, connections, host="127.0.0.1", port=0)
    port = run(served.__aenter__())
    try:
        yield WireServer(f"http://127.0.0.1:{port}", operations, keys)
    finally:
        run(served.__aexit__(None, None, None))
        run(_all_closed(loop))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_SECONDS)
        loop.close()
