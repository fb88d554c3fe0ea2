"""A small HTTP/1.1 server: a thread for each connection, bodies as streams, files by sendfile."""

from __future__ import annotations

import math
import os
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import BinaryIO

from stoker.platform.s3.faults import S3Fault

_BUFFER_BYTES = 512 * 1024
_MOST_HEAD_BYTES = 64 * 1024  # eight times what S3 takes
_SILENT_SECONDS = 120.0
_HEAD_SECONDS = 60.0
_MOST_CONNECTIONS = 1024
_BACKLOG = 512
# A client that sends more than that after a refusal loses its connection.
_DRAINED_BYTES = 16 * 1024 * 1024
_SMALL_BYTES = 64 * 1024  # sent in one write with its head
_NO_BODY = {204, 304}
_MOST_DIGITS = 18  # always fits into 64 bits
# A value that a client chose, such as response-content-type, must not begin a header of its own.
_NOT_IN_HEADERS = re.compile("[\0\r\n]")


class Disconnected(Exception):
    """The other side is gone, or silent for too long, or does not speak HTTP."""


class Stream:
    """The bytes of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0

    def read_until(self, mark: bytes, most_bytes: int, seconds: float = math.inf) -> bytes:
        """What comes up to a mark, which is left out; empty if the connection ends before.

        Args:
            mark: what ends it.
            most_bytes: more of them without the mark end the connection.
            seconds: so does more time, counted from the first byte on.
        """
        began = None
        while True:
            if self._start < self._end:
                began = began or time.monotonic()
                # One byte now and then would keep a connection for ever.
                if time.monotonic() - began > seconds:
                    raise Disconnected("the head of a request does not come")
            at = self._buffer.find(mark, self._start, self._end)
            if at >= 0:
                found = bytes(self._view[self._start : at])
                self._start = at + len(mark)
                return found
            if self._end - self._start > most_bytes:
                raise Disconnected("the head of a request is too long")
            if self._start:
                kept = bytes(self._view[self._start : self._end])
                self._view[: len(kept)] = kept
                self._start, self._end = 0, len(kept)
            count = self._receive(self._view[self._end :])
            if not count:
                if self._end:
                    raise Disconnected("the connection ended within a request")
                return b""
            self._end += count

    def read_some(self, most_bytes: int) -> memoryview:
        """The next bytes, valid until the next call; none at the end."""
        if self._start == self._end:
            self._start, self._end = 0, self._receive(self._view)
        start = self._start
        self._start = min(self._end, start + most_bytes)
        return self._view[start : self._start]

    def _receive(self, view: memoryview) -> int:
        try:
            return self.connection.recv_into(view)
        except OSError as error:
            raise Disconnected(str(error)) from error


@dataclass(slots=True)
class Request:
    """One request, whose body is read as it comes."""

    method: str
    path: str
    """Percent-encoded, as it was sent."""

    query: str
    headers: Mapping[str, str]
    """Names in lower case."""

    stream: Stream
    expects_continue: bool = False
    is_read: bool = False

    @property
    def length(self) -> int | None:
        """What Content-Length says; None without one."""
        return parse_digits(self.headers.get("content-length", ""))

    @property
    def has_body(self) -> bool:
        return "transfer-encoding" in self.headers or bool(self.length)

    def read_body(self) -> Iterator[memoryview]:
        """The body, piece by piece; each is valid until the next one.

        Raises:
            S3Fault: IncompleteBody: the connection ended before.
        """
        if self.expects_continue:
            self.stream.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.expects_continue = False
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._read_chunks()
        else:
            yield from self._read_exactly(self.length or 0)
        self.is_read = True

    def _read_exactly(self, size_bytes: int) -> Iterator[memoryview]:
        while size_bytes:
            piece = self.stream.read_some(size_bytes)
            if not piece:
                raise S3Fault("IncompleteBody")
            size_bytes -= len(piece)
            yield piece

    def _read_chunks(self) -> Iterator[memoryview]:
        while True:
            head = self.stream.read_until(b"\r\n", _MOST_HEAD_BYTES)
            size_bytes = parse_chunk_size(head.partition(b";")[0].strip())
            if not size_bytes:
                while self.stream.read_until(b"\r\n", _MOST_HEAD_BYTES):
                    pass
                return
            yield from self._read_exactly(size_bytes)
            self.stream.read_until(b"\r\n", _MOST_HEAD_BYTES)


def parse_chunk_size(text: bytes) -> int:
    """The size of a chunk.

    Raises:
        S3Fault: IncompleteBody.
    """
    if not re.fullmatch(rb"[0-9a-fA-F]{1,15}", text):
        raise S3Fault("IncompleteBody", "A chunk of the body has no valid size.")
    return int(text, 16)


@dataclass(slots=True)
class Response:
    """An answer: bytes, or a part of a file."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: BinaryIO | None = None
    """Closed when it has been sent."""

    offset: int = 0
    length: int = 0


Answer = Callable[[Request], Response]


def parse_digits(text: str) -> int | None:
    """A number as HTTP has it; None for anything else, and for what no size or time can be."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


def listen(address: str, port: int) -> socket.socket:
    """A socket that takes connections from now on."""
    return socket.create_server((address, port), backlog=_BACKLOG)


def serve(server: socket.socket, answer: Answer) -> None:
    """Answer the requests of all connections, for ever."""
    places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
    while True:
        places.acquire()
        try:
            connection, _ = server.accept()
        except OSError:  # reset before it was taken, or no more files
            places.release()
            threading.Event().wait(0.01)
            continue
        threading.Thread(
            target=_serve_connection, args=(connection, answer, places), daemon=True
        ).start()


def _serve_connection(
    connection: socket.socket, answer: Answer, places: threading.BoundedSemaphore
) -> None:
    try:
        with connection:
            connection.settimeout(_SILENT_SECONDS)
            # Nagle's algorithm would hold a short answer back until the one before was
            # acknowledged.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = Stream(connection)
            with suppress(Disconnected, OSError):
                while _serve_request(stream, answer):
                    pass
    finally:
        places.release()


def _serve_request(stream: Stream, answer: Answer) -> bool:
    """Answer one request; False if the connection must end."""
    head = stream.read_until(b"\r\n\r\n", _MOST_HEAD_BYTES, _HEAD_SECONDS)
    if not head:
        return False
    request = _parse(head, stream)
    if request is None:
        stream.connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        return False
    try:
        response = answer(request)
    except Disconnected:
        raise
    except Exception:
        traceback.print_exc()
        print(f"{request.method} {request.path} failed", file=sys.stderr, flush=True)
        response = Response(500)
    wants_close = request.headers.get("connection", "").lower() == "close"
    stays = not wants_close and (request.is_read or not request.has_body)
    _send(request, response, stays=stays)
    if not stays and not request.is_read and request.has_body:
        _drain(stream)
    return stays


def _parse(head: bytes, stream: Stream) -> Request | None:
    first, _, rest = head.lstrip(b"\r\n").decode("latin-1").partition("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    headers: dict[str, str] = {}
    for line in rest.split("\r\n") if rest else ():
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or name.strip() != name or "\n" in line:
            return None
        value = value.strip()
        headers[key] = f"{headers[key]},{value}" if key in headers else value
    if words[2] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    # Where the body ends would be a guess, and so would be where the next request begins.
    if "content-length" in headers and parse_digits(headers["content-length"]) is None:
        return None
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        return None
    path, _, query = words[1].partition("?")
    if not path.startswith("/"):
        path = "/" + re.sub(r"^https?://[^/]*/?", "", path)
    expects = headers.get("expect", "").lower() == "100-continue"
    return Request(words[0], path, query, headers, stream, expects_continue=expects)


def _send(request: Request, response: Response, *, stays: bool) -> None:
    length = response.length or len(response.body)
    lines = [f"HTTP/1.1 {response.status} {_phrase(response.status)}"]
    lines += [f"{name}: {_NOT_IN_HEADERS.sub(' ', v)}" for name, v in response.headers.items()]
    if response.status not in _NO_BODY:
        lines.append(f"Content-Length: {length}")
    if not stays:
        lines.append("Connection: close")
    # As they came: clients that send metadata in UTF-8 get the same bytes back.
    head = "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")
    connection = request.stream.connection
    try:
        if request.method == "HEAD" or response.status in _NO_BODY or not length:
            connection.sendall(head)
        elif response.file is None:
            connection.sendall(head + response.body)
        elif length <= _SMALL_BYTES:
            connection.sendall(head + os.pread(response.file.fileno(), length, response.offset))
        else:
            # The head then leaves in one packet with the beginning of the file.
            connection.sendall(head, socket.MSG_MORE)
            _send_file(connection, response)
    finally:
        if response.file:
            response.file.close()


def _send_file(connection: socket.socket, response: Response) -> None:
    sent = connection.sendfile(response.file, response.offset, response.length)  # type: ignore[arg-type]
    if sent != response.length:
        raise Disconnected("the file became shorter: half an object must not look like a whole")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _drain(stream: Stream) -> None:
    """Read what is still coming, so that the other side reads the answer before it sees an end."""
    stream.connection.shutdown(socket.SHUT_WR)
    drained, deadline = 0, time.monotonic() + _HEAD_SECONDS
    while drained < _DRAINED_BYTES and time.monotonic() < deadline:
        if not (piece := stream.read_some(_BUFFER_BYTES)):
            return
        drained += len(piece)
