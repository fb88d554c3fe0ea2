"""S3 behind the platform's one address: requests pass through to the embedded server as a stream.

The Host header is kept, since it is signed. Signatures are checked here, too: then a body is
read only from those who may send one, and answers of our own need no other check.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from stoker.platform.api import s3_answers
from stoker.platform.api.http_message import make_answer, make_request_id
from stoker.platform.api.signature import (
    UNSIGNED_PAYLOAD,
    Message,
    Signature,
    SignatureRefused,
    is_presigned_v2,
    read_signature,
    require_signature,
    signed_anew,
)
from stoker.platform.model.root import Credentials

_XML = "application/xml"
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 900
"""Completing a large multipart upload copies it once."""

_STALL_SECONDS = 120
_MOST_AT_ONCE = 256
_CHUNK_BYTES = 256 * 1024
_MOST_XML_BYTES = 16 * 1024 * 1024
# Of one connection only, not of the message; `Expect` is answered by aiohttp already.
_HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"),
    *("upgrade", "expect"),
}
_CODES: Mapping[str, tuple[str, int]] = {
    "missing": ("AccessDenied", 403),
    "malformed": ("AuthorizationHeaderMalformed", 400),
    "unknown_key": ("InvalidAccessKeyId", 403),
    "mismatch": ("SignatureDoesNotMatch", 403),
    "expired": ("RequestTimeTooSkewed", 403),
}


class S3Proxy:
    """Passes requests on to the embedded S3 server."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._address = address
        self._credentials = credentials
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
        """Let go of all connections."""
        if self._session:
            await self._session.close()

    async def answer(self, request: web.Request, message: Message) -> web.StreamResponse:
        """Answer one S3 request, if it is signed with the platform's keys."""
        try:
            if is_presigned_v2(message):
                message = signed_anew(message, self._credentials)
            else:
                self._require_signature(message, read_signature(message))
        except SignatureRefused as refused:
            code, status = _CODES[refused.kind]
            return _error(message, code, refused.message, status)
        if s3_answers.is_not_emulated(message.query):
            return _error(message, "NotImplemented", "Not emulated by the local platform.", 501)
        if s3_answers.is_folder_marker(message.method, message.path, message.headers):
            return web.Response(headers={hdrs.ETAG: s3_answers.EMPTY_ETAG})
        if self._running >= _MOST_AT_ONCE:
            return _error(message, "SlowDown", "Please reduce your request rate.", 503)
        self._running += 1
        try:
            return await self._pass_on(request, message)
        finally:
            self._running -= 1

    def _require_signature(self, message: Message, signature: Signature) -> None:
        # The body's own hash is for the S3 server to check, which reads it.
        hashed = message.headers.get("x-amz-content-sha256", UNSIGNED_PAYLOAD)
        require_signature(
            message,
            signature,
            credentials=self._credentials,
            payload_hash=UNSIGNED_PAYLOAD if signature.presigned else hashed,
        )

    async def _pass_on(self, request: web.Request, message: Message) -> web.StreamResponse:
        if self._session is None:
            raise RuntimeError("the proxy is not open")
        headers = {k: v for k, v in message.headers.items() if k not in _HOP_BY_HOP}
        target = f"{message.path}?{message.query}" if message.query else message.path
        answer: web.StreamResponse | None = None
        try:
            async with self._session.request(
                request.method,
                URL(f"http://{self._address}{target}", encoded=True),
                headers=headers,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                # Without `Expect: 100-continue`: some refusals of the server wait for the body.
                data=_read_body(request) if request.can_read_body else None,
                allow_redirects=False,
            ) as upstream:
                if _is_small_xml(message, upstream):
                    return await _mended(message, upstream)
                answer = _begin(upstream)
                await answer.prepare(request)
                if request.method != hdrs.METH_HEAD:
                    async for chunk in upstream.content.iter_chunked(_CHUNK_BYTES):
                        await answer.write(chunk)
                await answer.write_eof()
                return answer
        except (aiohttp.ClientError, TimeoutError) as error:
            if answer is not None and answer.prepared:
                # Half an object must not look like a whole one.
                _abort(request)
                return answer
            text = f"The S3 server does not answer, try again ({type(error).__name__}: {error})"
            return _error(message, "SlowDown", text, 503)


async def _read_body(request: web.Request) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(_STALL_SECONDS):
            chunk = await request.content.readany()
        if not chunk:
            return
        yield chunk


def _is_small_xml(message: Message, upstream: aiohttp.ClientResponse) -> bool:
    if message.method == hdrs.METH_HEAD:
        return False
    if s3_answers.is_error(upstream.status):
        return True
    return s3_answers.is_listing(message.method, message.path, message.query)


async def _mended(message: Message, upstream: aiohttp.ClientResponse) -> web.Response:
    body = await upstream.content.read(_MOST_XML_BYTES)
    while len(body) < _MOST_XML_BYTES and (more := await upstream.content.readany()):
        body += more
    if s3_answers.is_own_bucket_again(message.method, message.path, upstream.status, body):
        return web.Response(headers={"Location": message.path})
    if s3_answers.is_error(upstream.status):
        body = s3_answers.mended_error(body)
    else:
        body = s3_answers.mended_listing(body, message.query)
    answer = web.Response(body=body, status=upstream.status, reason=upstream.reason)
    _copy_headers(upstream, answer, part=False)
    answer.headers.popall(hdrs.CONTENT_LENGTH, None)  # that of the body before it was mended
    return answer


def _begin(upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    part = s3_answers.is_range(upstream.status, upstream.headers)
    status = s3_answers.PARTIAL if part else upstream.status
    answer = web.StreamResponse(status=status)
    _copy_headers(upstream, answer, part=part)
    return answer


def _copy_headers(
    upstream: aiohttp.ClientResponse, answer: web.StreamResponse, *, part: bool
) -> None:
    answer.headers.popall(hdrs.CONTENT_TYPE, None)
    for name, value in upstream.headers.items():
        kept = None if name.lower() in _HOP_BY_HOP else s3_answers.mended_header(name, part=part)
        if kept:
            answer.headers.add(kept, value)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _error(message: Message, code: str, text: str, status: int) -> web.Response:
    request_id = make_request_id()
    body = s3_answers.make_error(code, text, message.path, request_id)
    if message.method == hdrs.METH_HEAD:
        body = b""
    return make_answer(body, status=status, content_type=_XML, request_id=request_id)
