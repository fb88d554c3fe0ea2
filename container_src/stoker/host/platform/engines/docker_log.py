"""A container's output from the engine, byte for byte.

Not by `docker logs`: on its error stream the client's own complaints cannot be told from the
container's output. `docker system dial-stdio` is a plain line to the engine, wherever it is, and
what comes over it is framed: half a frame from an engine that went away is noticed and dropped.
"""

from __future__ import annotations

import http.client
import socket
import struct
from collections.abc import Iterator
from urllib.parse import quote

from stoker.host.platform.engines.docker_cli import DockerCli

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
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            line = cli.start("system", "dial-stdio", talk=theirs.fileno())
        try:
            connection = http.client.HTTPConnection("docker")
            connection.sock = ours
            connection.request("GET", path)
            yield from _payloads(_blocks(connection.getresponse()), skip_bytes)
        except (http.client.HTTPException, OSError) as error:
            raise ConnectionError(f"the engine broke off: {error}") from None
        finally:
            line.close()


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
