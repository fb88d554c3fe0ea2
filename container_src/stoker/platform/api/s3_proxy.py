"""S3 behind the platform's one address: requests pass through to the S3 server as a stream.

The Host header is kept, since it is signed. Only the S3 server checks signatures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from stoker.platform.api.http_message import make_answer, make_request_id
from stoker.platform.model.signature import Message
from stoker.platform.s3.xml_text import make_error

_XML = "application/xml"
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 900
"""Completing a large multipart upload copies it once."""

_STALL_SECONDS = 120
_MOST_AT_ONCE = 256
_CHUNK_BYTES = 256 * 1024
# Of one connection only, not of the message; `Expect` is answered by aiohttp already.
_HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"),
    *("upgrade", "expect"),
}


class S3Proxy:
    """Passes requests on to the S3 server."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None
        self._running = 0

    async def open(self) -> None:
        """Get ready, inside the running event loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # bounded by _MOST_AT_ONCE
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_SECONDS, sock_read=_ANSWER_SECONDS
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session:
            await self._session.close()

    async def answer(self, request: web.Request, message: Message) -> web.StreamResponse:
        """Answer one S3 request."""
        if self._running >= _MOST_AT_ONCE:
            return _refuse(message, "Please reduce your request rate.")
        self._running += 1
        try:
            return await self._pass_on(request, message)
        finally:
            self._running -= 1

    async def _pass_on(self, request: web.Request, message: Message) -> web.StreamResponse:
        if self._session is None:
            raise RuntimeError("the proxy is not open")
        headers = {k: v for k, v in message.headers.items() if k not in _HOP_BY_HOP}
        target = f"{message.path}?{message.query}" if message.query else message.path
        answer: web.StreamResponse | None = None
        try:
            async with self._session.request(
                request.method,
                # As it was sent: the signature covers the encoded path.
                URL(f"http://{self._address}{target}", encoded=True),
                headers=headers,
                # S3 would store a Content-Type of aiohttp's with the object; the others are not
                # the client's either.
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                data=_read_body(request) if request.can_read_body else None,
                allow_redirects=False,
            ) as upstream:
                answer = _begin(upstream)
                await answer.prepare(request)
                if request.method != hdrs.METH_HEAD:
                    async for chunk in upstream.content.iter_chunked(_CHUNK_BYTES):
                        async with asyncio.timeout(_STALL_SECONDS):
                            await answer.write(chunk)
                await answer.write_eof()
                return answer
        except (aiohttp.ClientError, TimeoutError) as error:
            if answer is not None and answer.prepared:
                # Half an object must not look like a whole one.
                _abort(request)
                return answer
            text = f"The S3 server does not answer, try again ({type(error).__name__}: {error})"
            return _refuse(message, text)


async def _read_body(request: web.Request) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(_STALL_SECONDS):
            chunk = await request.content.readany()
        if not chunk:
            return
        yield chunk


def _begin(upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    answer = web.StreamResponse(status=upstream.status)
    answer.headers.popall(hdrs.CONTENT_TYPE, None)
    for name, value in upstream.headers.items():
        if name.lower() not in _HOP_BY_HOP:
            answer.headers.add(name, value)
    return answer


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _refuse(message: Message, text: str) -> web.Response:
    request_id = make_request_id()
    body = make_error("SlowDown", text, message.path, request_id)
    if message.method == hdrs.METH_HEAD:
        body = b""
    return make_answer(body, status=503, content_type=_XML, request_id=request_id)
