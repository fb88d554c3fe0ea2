"""Ports that stay the same over restarts of the server.

Containers that run without a server know the S3 server's port, and a user's shell has exported
the API's address: both should find the next server where the last one was.
"""

from __future__ import annotations

import json
import socket
import time

from stoker.errors import HostError
from stoker.platform.model.root import Root

_WAIT_SECONDS = 5.0
"""How long the last server's own processes may still hold their ports after a kill -9."""

_STEP_SECONDS = 0.05
_TRIES = 50


def choose_port(root: Root, name: str, addresses: tuple[str, ...]) -> int:
    """The last port of that name if it is free on all addresses, else another one.

    Raises:
        HostError: no port is free on all of them.
    """
    last = read_ports(root).get(name)
    deadline = time.monotonic() + _WAIT_SECONDS
    while last and not is_free(last, addresses) and time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
    if last and is_free(last, addresses):
        return last
    for _ in range(_TRIES):
        port = _any_free(addresses[0])
        # One port for all addresses: loopback for users, the Docker bridge for containers.
        if is_free(port, addresses):
            return port
    raise HostError(
        f"no port is free on all of {', '.join(addresses)}",
        fix="see that these addresses exist (`ip addr`); a Docker bridge comes with the engine",
    )


def remember_port(root: Root, name: str, port: int) -> None:
    """Keep a port for the next server of this root."""
    file = root.folder / "ports.json"
    part = file.with_name("ports.json.tmp")
    part.write_text(json.dumps({**read_ports(root), name: port}))
    part.replace(file)


def is_free(port: int, addresses: tuple[str, ...]) -> bool:
    """Whether a server could listen there, as one that has just been restarted would."""
    for address in addresses:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((address, port))
                tried.listen(1)  # SO_REUSEADDR lets a bind succeed if an idle socket is bound
            except OSError:
                return False
    return True


def _any_free(address: str) -> int:
    with socket.socket() as asked:
        try:
            asked.bind((address, 0))
        except OSError as error:
            raise HostError(
                f"nothing can listen on {address}: {error}",
                fix="see that the address exists: `ip addr`",
            ) from error
        port: int = asked.getsockname()[1]
        return port


def read_ports(root: Root) -> dict[str, int]:
    """The ports of the last server of this root, by name."""
    try:
        ports = json.loads((root.folder / "ports.json").read_text())
        return {str(name): int(port) for name, port in ports.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
