"""The platform as AWS, with chosen answers of AWS in its place: errors, cuts, lost answers."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

CUT, LOST = "cut", "lost"
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


@dataclass
class Fault:
    """What one kind of request gets in place of the platform's answer.

    CUT ends the connection before the request is passed on, LOST after it; an Answer replaces the
    platform's, and a function makes one of the request's body and the platform's answer.
    """

    wanted: str
    """A part of "METHOD PATH TARGET BODY": an operation's name, a key."""
    answer: object
    times: int = 10**9
    seen: int = 0


@dataclass(frozen=True)
class Answer:
    """An error as a service of AWS sends it."""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)


def json_error(code: str, message: str, status: int = 400) -> Answer:
    """Of SageMaker, logs, ECR and Service Quotas."""
    body = json.dumps({"__type": code, "message": message})
    return Answer(status, body, {"Content-Type": "application/x-amz-json-1.1"})


def query_error(code: str, message: str, status: int = 403) -> Answer:
    """Of STS and IAM."""
    return Answer(
        status,
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>'
        f"<Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        "<RequestId>1</RequestId></ErrorResponse>",
        {"Content-Type": "text/xml"},
    )


def s3_error(code: str, message: str, status: int) -> Answer:
    """Of S3."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status, body, {"Content-Type": "application/xml"})


@contextmanager
def fault_proxy(endpoint: str, *faults: Fault) -> Iterator[str]:
    """The address that plays AWS while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(endpoint, faults))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_handler(endpoint: str, faults: tuple[Fault, ...]) -> type[BaseHTTPRequestHandler]:
    place, lock = urlsplit(endpoint).netloc, threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            target = self.headers.get("X-Amz-Target", "")
            text = f"{self.command} {self.path} {target} {body[:4096].decode(errors='replace')}"
            answer = self.find(text)
            if answer == CUT:
                self.close_connection = True
                return
            if isinstance(answer, Answer):
                self.reply(answer.status, answer.headers, answer.body.encode())
                return
            status, headers, content = self.forward(body)
            if answer == LOST:
                self.close_connection = True
                return
            if callable(answer):
                made = answer(body, Answer(status, content.decode(), headers))
                status, headers, content = made.status, made.headers, made.body.encode()
            self.reply(status, headers, content)

        def find(self, text: str) -> object:
            with lock:
                for fault in faults:
                    if fault.wanted in text and fault.seen < fault.times:
                        fault.seen += 1
                        return fault.answer
            return None

        def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(place, timeout=240)
            try:
                # As it came, with its Host: that is a part of the signature.
                connection.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "expect"):
                        connection.putheader(name, value)
                connection.endheaders(body)
                answer = connection.getresponse()
                return answer.status, dict(answer.getheaders()), answer.read()
            finally:
                connection.close()

        def reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            is_head = self.command == "HEAD"
            size = headers.get("Content-Length", "0") if is_head else str(len(content))
            self.send_header("Content-Length", size)
            self.end_headers()
            if not is_head:
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

        def log_message(self, *_arguments: object) -> None:
            pass

    return Handler
