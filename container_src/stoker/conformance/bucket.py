"""A stand-in for S3 with one object in it, on the address at which containers see this machine."""

from __future__ import annotations

import ipaddress
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stoker.conformance.lab import Lab

NAME = "stoker-check"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """Where the object is, and who has asked for it."""

    uri: str
    endpoint: str
    asked: list[str] = field(default_factory=list)

    @property
    def environ(self) -> Mapping[str, str]:
        """What makes an AWS SDK of 2023 or later come here."""
        return {
            # Both: the second is for launchers that ask STS or EC2 before S3; they find this
            # server, too.
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "stoker-check",
            "AWS_SECRET_ACCESS_KEY": "stoker-check",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextmanager
def serve(lab: Lab, key: str, content: bytes) -> Iterator[Bucket | None]:
    """Serves one object; None where containers cannot reach this machine by the bridge."""
    address = _find_bridge_address(lab)
    asked: list[str] = []
    try:
        server = ThreadingHTTPServer((address, 0), _make_handler(key, content, asked))
    except OSError:  # no such address here: the engine runs on another machine
        yield None
        return
    endpoint = f"http://{address}:{server.server_address[1]}"
    # The queue of the socket is open since the constructor: no request comes too early.
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Bucket(uri=f"s3://{NAME}/{key}", endpoint=endpoint, asked=asked)
    finally:
        server.shutdown()
        server.server_close()


def _find_bridge_address(lab: Lab) -> str:
    answer = lab.docker("network", "inspect", "--format", "{{json .IPAM.Config}}", "bridge")
    for config in json.loads(answer.stdout or "null") or ():
        if config.get("Gateway"):
            return str(config["Gateway"])
        if config.get("Subnet"):  # some engines do not tell; it is the first address
            return str(next(ipaddress.ip_network(config["Subnet"]).hosts()))
    return "unknown.invalid"


def _make_handler(key: str, content: bytes, asked: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            asked.append(self.path)
            # With the bucket in the path: an SDK does not put it into the host name of an address
            # that is an IP.
            found = self.path.partition("?")[0] == f"/{NAME}/{key}"
            body = content if found else b"<Error><Code>NoSuchKey</Code></Error>"
            # For clients that download in parts, or resume at an offset.
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            self.send_response((206 if wanted else 200) if found else 404)
            if found and wanted:
                first = int(wanted[1])
                last = int(wanted[2] or len(content) - 1)
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
                body = content[first : last + 1]
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"stoker-check"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The terminal belongs to the report."""

    return Handler
