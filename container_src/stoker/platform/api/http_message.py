"""An aiohttp request as its signature sees it, and answers with the headers AWS sends."""

from __future__ import annotations

import json
import secrets
from typing import Any

from aiohttp import web

from stoker.platform.model.signature import Message


def read_message(request: web.Request) -> Message:
    """The request exactly as it was sent: aiohttp's own view of the path is decoded."""
    path, _, query = request.raw_path.partition("?")
    if not path.startswith("/"):  # `*` or a whole address: behind ours it could name another
        path = f"/{path}"
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]},{value}" if key in headers else value
    return Message(method=request.method, path=path, query=query, headers=headers)


def make_request_id() -> str:
    """A name for one request, for both logs."""
    return secrets.token_hex(16)


def make_answer(body: bytes, *, status: int, content_type: str, request_id: str) -> web.Response:
    """A whole answer."""
    return web.Response(
        body=body,
        status=status,
        headers={"Content-Type": content_type, "x-amzn-RequestId": request_id},
    )


def read_json(body: bytes) -> Any:  # noqa: ANN401 - as json.loads
    """The value of a body; an empty one is an empty object.

    Raises:
        ValueError: it is not JSON, too deep, or has half a character (`\\ud800`), which no
            database stores.
    """
    try:
        value = json.loads(body or b"{}")
    except RecursionError as error:
        raise ValueError("it is too deep") from error
    if b"\\ud" in body.lower():
        json.dumps(value, ensure_ascii=False).encode()
    return value
