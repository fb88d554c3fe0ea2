"""The Docker client as a way to the engine, which may not answer for a while; container logs."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from stoker.machine.docker import TIMED_OUT, Finished, ask, is_engine_lost
from stoker.machine.failures import EngineSilent

# An engine that is restarted in the middle of an answer.
_BROKEN_OFF = "unexpected eof"
_RETRY_SECONDS = 0.5
_CALL_SECONDS = 60.0
_HOST_FORMAT = "{{.Endpoints.docker.Host}}"


class DockerCli:
    """Runs the client; counts for how long the engine has not answered."""

    def __init__(self, client: Sequence[str], *, patience_seconds: float) -> None:
        """Args: patience_seconds: a restart of the engine takes less."""
        self._client = tuple(client)
        self._patience_seconds = patience_seconds
        self._silent_since: float | None = None
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lines: set[socket.socket] = set()
        self._lock = threading.Lock()

    def ask(
        self,
        *arguments: str,
        timeout_seconds: float = 60,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Finished:
        """Asks until the engine answers.

        Args:
            arguments: of the client.
            timeout_seconds: how long one answer may take.
            variables: added to the client's environment.

        Raises:
            EngineSilent: it has not for too long.
        """
        while True:
            answer = self.try_to_ask(
                *arguments, timeout_seconds=timeout_seconds, variables=variables
            )
            if answer is not None:
                return answer
            time.sleep(_RETRY_SECONDS)

    def try_to_ask(
        self,
        *arguments: str,
        timeout_seconds: float = 60,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Finished | None:
        """Asks once; None if the engine does not answer now.

        Raises:
            EngineSilent: it has not for too long.
        """
        command = [*self._client, *arguments]
        return self._note_answer(
            ask(command, timeout_seconds=timeout_seconds, variables=variables)
        )

    def _note_answer(self, answer: Finished) -> Finished | None:
        """The answer, or None while there is none."""
        if not _is_silence(answer):
            self._silent_since = None
            return answer
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since >= self._patience_seconds:
            raise EngineSilent(
                f"the Docker engine has not answered for {now - self._silent_since:.0f} s: "
                f"{answer.tail}",
                fix="start it: systemctl start docker",
            )
        return None

    def call(self, method: str, path: str) -> Finished:
        """One call of the engine's own API, in a tenth of the time that a client takes.

        Returns:
            What a client would: the answer's text, or the engine's words and a code other than 0.

        Raises:
            EngineSilent: the engine has not answered for too long.
        """
        while (answer := self.try_to_call(method, path)) is None:
            time.sleep(_RETRY_SECONDS)
        return answer

    def inspect(self, path: str) -> Mapping[str, Any] | None:
        """What the engine knows about a thing; None if it has no such thing.

        Raises:
            EngineLost: the engine has not answered for too long.
        """
        answer = self.call("GET", path)
        found: Mapping[str, Any] | None = json.loads(answer.stdout) if answer.code == 0 else None
        return found

    def try_to_call(self, method: str, path: str) -> Finished | None:
        """The same, once; None if the engine does not answer now."""
        try:
            with self.dialled() as connection:
                connection.request(method, path, headers={"Content-Length": "0"})
                response = connection.getresponse()
                return self._note_answer(_read_answer(response.status, response.read()))
        except (http.client.HTTPException, OSError) as error:
            return self._note_answer(Finished(code=TIMED_OUT, stderr=f"no answer: {error}"))

    def call_within(self, method: str, path: str, timeout_seconds: float) -> bool:
        """A call whose answer may take long, such as that to wait for a container's end.

        Returns:
            Whether the answer came within that time.

        Raises:
            ConnectionError: the engine went away, perhaps for a moment only.
        """
        try:
            with self.dialled() as connection:
                connection.sock.settimeout(timeout_seconds)
                connection.request(method, path, headers={"Content-Length": "0"})
                connection.getresponse().read()
        except TimeoutError:
            return False
        except (http.client.HTTPException, OSError) as error:
            raise _broken_off(error) from None
        return True

    @contextmanager
    def dialled(self) -> Iterator[http.client.HTTPConnection]:
        """A connection to the engine, wherever the client would find it.

        Raises:
            OSError: it is not there.
        """
        connection = http.client.HTTPConnection("docker", timeout=_CALL_SECONDS)
        if self._socket_path:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(_CALL_SECONDS)
                line.connect(self._socket_path)
                with self._open_line(line):
                    connection.sock = line
                    yield connection
            return
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                # As Docker's own clients do over ssh: the client passes bytes between its stdio
                # and the engine.
                client = self._start_dial(theirs.fileno())
            try:
                connection.sock = ours
                yield connection
            finally:
                self._end_dial(client)

    @contextmanager
    def _open_line(self, line: socket.socket) -> Iterator[None]:
        """Known while it is used: `close` ends it."""
        with self._lock:
            self._lines.add(line)
        try:
            yield
        finally:
            with self._lock:
                self._lines.discard(line)

    @cached_property
    def _socket_path(self) -> str:
        """Of an engine on this machine; empty if the client reaches it by other means."""
        answer = ask([*self._client, "context", "inspect", "--format", _HOST_FORMAT])
        scheme, _, path = answer.stdout.strip().partition("://")
        return path if answer.code == 0 and scheme == "unix" else ""

    def _start_dial(self, line: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*self._client, "system", "dial-stdio"],
            stdin=line,
            stdout=line,
            stderr=subprocess.DEVNULL,
        )
        with self._lock:
            self._running.add(process)
        return process

    def _end_dial(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        with self._lock:
            self._running.discard(process)

    def close(self) -> None:
        """Ends all lines to the engine."""
        with self._lock:
            lines = tuple(self._lines)
        for line in lines:
            with suppress(OSError):
                # A close would not wake the thread that waits in a read of it.
                line.shutdown(socket.SHUT_RDWR)
        for process in tuple(self._running):
            self._end_dial(process)


def _read_answer(status: int, body: bytes) -> Finished:
    text = body.decode(errors="replace")
    if status == http.HTTPStatus.MOVED_PERMANENTLY:  # the path is another's: an image named ../x
        return Finished(code=status, stderr="invalid reference format")
    if status < http.HTTPStatus.BAD_REQUEST:
        return Finished(code=0, stdout=text)
    try:
        said = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        said = text
    return Finished(code=status, stderr=said)


def _is_silence(answer: Finished) -> bool:
    is_broken_off = answer.code != 0 and _BROKEN_OFF in answer.stderr.lower()
    return answer.code == TIMED_OUT or is_broken_off or is_engine_lost(answer)


_HEADER = struct.Struct(">BxxxL")  # 1 for stdout or 2 for stderr, and the size of what follows
_LINE_END = b"\r\n"
_RECEIVE_BYTES = 64 * 1024


def read_frames(
    cli: DockerCli, container: str, *, follow: bool, skip_bytes: int
) -> Iterator[bytes]:
    """What the container has written behind the first bytes; ends early if the line breaks.

    On engine 20.10 the last of it may be missing when following: read once more without.

    Raises:
        ConnectionError: the line was broken before the end.
    """
    path = f"/containers/{quote(container)}/logs?stdout=1&stderr=1&follow={int(follow)}"
    try:
        with cli.dialled() as connection:
            connection.sock.settimeout(None)  # a script may be silent for as long as it likes
            connection.request("GET", path)
            yield from _payloads(_blocks(connection.getresponse()), skip_bytes)
    except (http.client.HTTPException, OSError) as error:
        raise _broken_off(error) from None


def _broken_off(error: Exception) -> ConnectionError:
    return ConnectionError(f"the engine broke off: {error}")


def _payloads(blocks: Iterator[bytes], skip_bytes: int) -> Iterator[bytes]:
    """Takes the frames apart; all that came at once is handed on at once."""
    rest = b""
    for block in blocks:
        rest += block
        found, at = [], 0
        while len(rest) - at >= _HEADER.size:
            end = at + _HEADER.size + _HEADER.unpack_from(rest, at)[1]
            if end > len(rest):
                break
            found.append(rest[at + _HEADER.size : end])
            at = end
        rest = rest[at:]
        text = b"".join(found)
        if len(text) > skip_bytes:
            yield text[skip_bytes:]
        skip_bytes = max(0, skip_bytes - len(text))
    if rest:
        raise ConnectionError("the engine broke off within a frame")


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it comes. http.client itself would make two calls of every line."""
    if response.status != http.client.OK:
        raise ConnectionError(f"the engine answered {response.status}: {response.read(500)!r}")
    if not response.chunked:  # so short that the engine could tell its size
        yield response.read()
        return
    rest = b""
    while received := response.fp.read1(_RECEIVE_BYTES):
        rest += received
        found, at, size = [], 0, -1
        while (line_end := rest.find(_LINE_END, at)) >= 0 and size != 0:
            size = int(rest[at:line_end], 16)
            end = line_end + len(_LINE_END) + size
            if end + len(_LINE_END) > len(rest):
                break
            found.append(rest[line_end + len(_LINE_END) : end])
            at = end + len(_LINE_END)
        rest = rest[at:]
        yield b"".join(found)
        if size == 0:
            return
    raise ConnectionError("the engine broke off")
