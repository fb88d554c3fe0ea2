"""Signed requests to the platform, by the standard library.

boto3 takes half a second of CPU to load and to read the service's model: more than a whole job
needs to start. The answers are the service's own JSON, with times as boto3 gives them.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from stoker.errors import HostError
from stoker.machine.signature import PAYLOAD_HASH, Keys, sign
from stoker.platform.model.root import REGION, Credentials

# The first half of X-Amz-Target, `targetPrefix` in botocore's models of these services.
_TARGETS = {
    "sagemaker": "SageMaker",
    "logs": "Logs_20140328",
    "monitoring": "GraniteServiceVersion20100801",
}
_TIMEOUT_SECONDS = 60
_TRIES = 5
_PAUSE_SECONDS = 0.2
_CHUNK_BYTES = 1 << 20
_TIME_NAMES = re.compile(r"\w*(Time|Timestamp)")


class Refusal(Exception):
    """What the platform answered instead of a result."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Connection:
    """One connection for each thread that uses it."""

    def __init__(self, endpoint: str, credentials: Credentials) -> None:
        self._address = urlsplit(endpoint).netloc
        self._keys = Keys(access_key=credentials.access_key, secret_key=credentials.secret_key)
        self._local = threading.local()

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """One operation.

        Raises:
            Refusal: the platform does not accept it.
            HostError: it does not answer.
        """
        body = json.dumps(parameters).encode()
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{_TARGETS[service]}.{operation}",
            PAYLOAD_HASH: hashlib.sha256(body).hexdigest(),
        }
        signed = self._sign(service, "POST", "/", headers)
        status, answer = self._request("POST", "/", signed, body)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise _read_json_refusal(status, answer)
        result: dict[str, Any] = json.loads(answer) if answer else {}
        return _with_times(result) if service == "sagemaker" else result

    def pages(
        self, service: str, operation: str, parameters: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """All pages of a list."""
        name = "nextToken" if service == "logs" else "NextToken"
        page = self.call(service, operation, parameters)
        yield page
        while token := page.get(name):
            page = self.call(service, operation, {**parameters, name: token})
            yield page

    def has_object(self, bucket: str, key: str) -> bool:
        """Whether there is such an object."""
        path = _make_path(bucket, key)
        headers = {PAYLOAD_HASH: hashlib.sha256(b"").hexdigest()}
        status, _ = self._request("HEAD", path, self._sign("s3", "HEAD", path, headers), None)
        return status == http.HTTPStatus.OK

    def put_object(
        self, bucket: str, key: str, file: Path, *, on_bytes: Callable[[int], object]
    ) -> None:
        """Make an object of a file.

        Raises:
            Refusal: the platform does not accept it.
            HostError: it does not answer.
        """
        path = _make_path(bucket, key)
        headers = {
            # A hash of the body would cost another pass over the file; the way is loopback.
            PAYLOAD_HASH: "UNSIGNED-PAYLOAD",
            # A body from an iterator would otherwise be sent in chunks, which S3 does not accept.
            "Content-Length": str(file.stat().st_size),
        }
        signed = self._sign("s3", "PUT", path, headers)
        status, answer = self._request("PUT", path, signed, lambda: _read_chunks(file, on_bytes))
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise _read_xml_refusal(status, answer)

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | Callable[[], Iterator[bytes]] | None,
    ) -> tuple[int, bytes]:
        """Ask; a connection that the platform has closed meanwhile is opened again."""
        for attempt in range(1, _TRIES + 1):
            connection = self._open()
            try:
                # A new iterator for each try: the last one may have been read in part.
                sent = body() if callable(body) else body
                connection.request(method, path, body=sent, headers=dict(headers))
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if attempt == _TRIES:
                    raise HostError(
                        f"the platform does not answer: {error!r}",
                        fix="see `stoker local status`; start it: `stoker local up --detach`",
                    ) from error
            except BaseException:
                # After Ctrl-C in the middle, the rest of this request would go before the next.
                connection.close()
                self._local.connection = None
                raise
            # The first failure is as a rule a kept-alive connection that the server has closed: no
            # pause.
            if attempt > 1:
                time.sleep(_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    def _open(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT_SECONDS)
            self._local.connection = connection
        return connection

    def _sign(
        self, service: str, method: str, path: str, headers: Mapping[str, str]
    ) -> dict[str, str]:
        return sign(
            *(method, self._address, path, headers),
            keys=self._keys,
            service=service,
            region=REGION,
        )


def _make_path(bucket: str, key: str) -> str:
    return f"/{bucket}/{quote(key, safe='/~')}"


def _read_chunks(file: Path, on_bytes: Callable[[int], object]) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk
            on_bytes(len(chunk))


def _read_json_refusal(status: int, answer: bytes) -> Refusal:
    try:
        said = json.loads(answer)
        # botocore's JSON protocol: the code may have a namespace in front, `com.amazonaws…#Code`.
        code = said["__type"].rpartition("#")[2]
        return Refusal(code, said.get("message") or said.get("Message", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Refusal(str(status), answer[:500].decode(errors="replace"))


def _read_xml_refusal(status: int, answer: bytes) -> Refusal:
    text = answer.decode(errors="replace")
    code, message = (re.search(f"<{tag}>(.*?)</{tag}>", text, re.S) for tag in ("Code", "Message"))
    return Refusal(code[1] if code else str(status), message[1] if message else text[:500])


def _with_times(value: Any, name: str = "") -> Any:  # noqa: ANN401 - JSON of any shape
    """Numbers of seconds become times, as the service's model says of these names."""
    if isinstance(value, dict):
        return {key: _with_times(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_times(item) for item in value]
    if isinstance(value, int | float) and _TIME_NAMES.fullmatch(name):
        return datetime.fromtimestamp(value, UTC).astimezone()
    return value
