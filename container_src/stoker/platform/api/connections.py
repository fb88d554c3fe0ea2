"""Connections that do not send a whole request in time are closed: aiohttp waits for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

SILENT_SECONDS = 60.0
_END_SECONDS = 5.0
_BACKLOG = 512


@asynccontextmanager
async def serving(
    app: web.Application, connections: Connections, *, host: str, port: int
) -> AsyncIterator[int]:
    """Serve an application while entered; yields the port, which is chosen if it is 0."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_END_SECONDS)
    await runner.setup()
    server = cast("Callable[[], asyncio.Protocol]", runner.server)
    listening = await asyncio.get_running_loop().create_server(
        lambda: connections.timed(server), host, port, backlog=_BACKLOG
    )
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await runner.cleanup()


class Connections:
    """The open connections; each may be silent for so long before and between its requests."""

    def __init__(self, silent_seconds: float = SILENT_SECONDS) -> None:
        self._silent_seconds = silent_seconds
        self._timers: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def timed(self, make_protocol: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """A protocol whose connection is closed when the head of a request does not come."""
        return _Timed(self, make_protocol())

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """While a request is answered, which has limits of its own, the connection may stay."""
        self._stop(transport)
        try:
            yield
        finally:
            if transport is not None and not transport.is_closing():
                self.wait_for_request(transport)

    def wait_for_request(self, transport: asyncio.BaseTransport) -> None:
        loop = asyncio.get_running_loop()
        self._timers[transport] = loop.call_later(self._silent_seconds, transport.close)

    def forget(self, transport: asyncio.BaseTransport | None) -> None:
        self._stop(transport)

    def _stop(self, transport: asyncio.BaseTransport | None) -> None:
        if transport is not None and (timer := self._timers.pop(transport, None)):
            timer.cancel()


class _Timed(asyncio.Protocol):
    """Passes everything on; notes when the connection begins and ends."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections = connections
        self._inner = inner
        self._transport: asyncio.BaseTransport | None = None
        self.data_received = inner.data_received  # type: ignore[method-assign]  # the busy one
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.wait_for_request(transport)
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.forget(self._transport)
        self._inner.connection_lost(error)


def leave_out_malformed_requests() -> None:
    """Keep tracebacks of what is not HTTP out of the log; the sender gets a 400 anyway."""
    logging.getLogger("aiohttp.server").addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, HttpProcessingError)
