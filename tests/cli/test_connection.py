"""The command line's own connection to the platform."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stoker.cli.client.connection import Connection
from stoker.platform.model.root import Credentials


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        # As the platform: a line of another request among the headers is an error.
        self.send_response(400 if self.headers.defects else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None: ...


def test_a_request_after_an_interrupted_one_is_whole(monkeypatch):
    send = http.client.HTTPConnection.endheaders

    def interrupted(*_: object, **__: object) -> None:
        monkeypatch.setattr(http.client.HTTPConnection, "endheaders", send)
        raise KeyboardInterrupt  # the lines of the request are in the connection's buffer

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        connection = Connection(address, Credentials(access_key="a", secret_key="b"))
        monkeypatch.setattr(http.client.HTTPConnection, "endheaders", interrupted)
        with pytest.raises(KeyboardInterrupt):
            connection.call("sagemaker", "StopTrainingJob", {})
        assert connection.call("sagemaker", "StopTrainingJob", {}) == {}
        connection._open().close()
        server.shutdown()
        thread.join()
