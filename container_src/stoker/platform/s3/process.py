"""The process of the S3 server, kept up by another one that outlives us."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from signal import SIGKILL, SIGTERM

from stoker.errors import HostError
from stoker.machine.environment import read_environment
from stoker.machine.processes import Identity, read_command, read_identity, with_variable
from stoker.platform.model.ports import choose_port, read_ports, remember_port
from stoker.platform.model.root import Credentials, Root, read_credentials
from stoker.platform.s3.keeper import has_jobs, join_users

LOOPBACK = "127.0.0.1"
_MARK = "STOKER_S3_ROOT"  # in the environment of both processes: they are found by it
_KEYS = "STOKER_S3_KEYS"
_READY_SECONDS = 60
_ADOPTION_SECONDS = 10
_END_SECONDS = 15
_STEP_SECONDS = 0.02
_LOOK_SECONDS = 1.0
_CONNECT_SECONDS = 2


class S3Server:
    """A running S3 server; one that dies is started again on the same port."""

    def __init__(self, root: Root, addresses: tuple[str, ...]) -> None:
        self._root = root
        self._addresses = addresses
        self._variables = _variables(root, read_credentials(root))
        self._stopping = threading.Event()
        self._lock = join_users(root)
        self._keeper = self._adopt() or self._start_keeper()
        threading.Thread(target=self._watch, name="s3-watch", daemon=True).start()

    @classmethod
    def start(cls, root: Root, addresses: tuple[str, ...] = (LOOPBACK,)) -> S3Server:
        """Adopt the S3 server of this root, or start one; wait until it answers everywhere.

        Args:
            root: whose `s3` folder is served, with whose keys.
            addresses: where to listen, loopback first.

        Raises:
            HostError: it does not answer.
        """
        server = cls(root, addresses)
        if not server._answers_within(_READY_SECONDS):
            server.stop()
            raise HostError(
                f"the S3 server does not answer on port {server.port} of {addresses}",
                fix=f"see {root.server_log}; `stoker doctor` checks the machine",
            )
        return server

    @property
    def port(self) -> int:
        """Where it listens."""
        return read_ports(self._root)["s3"]

    @property
    def address(self) -> str:
        """Where this process reaches it."""
        return f"{self._addresses[0]}:{self.port}"

    def stop(self) -> None:
        """Release it; it ends unless jobs keep running without a server and need it."""
        self._stopping.set()
        if not has_jobs(self._root):
            _end(self._keeper)
        os.close(self._lock)

    def _adopt(self) -> Identity | None:
        """The keeper an earlier server left; one with another command or other keys is ended."""
        marked = with_variable(_MARK, self._variables[_MARK])
        same_keys = with_variable(_KEYS, self._variables[_KEYS])
        wanted = make_command(self._root, self._addresses, read_ports(self._root).get("s3", 0))
        found = [pid for pid in marked if pid in same_keys and read_command(pid) == wanted]
        if found and self._answers_within(_ADOPTION_SECONDS):
            return read_identity(found[0])
        for stray in filter(None, map(read_identity, marked)):
            stray.signal(SIGKILL)  # it may hang, and has nothing to lose
            stray.ends_within(_END_SECONDS)
        return None

    def _answers_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not all(_answers(address, self.port) for address in self._addresses):
            if time.monotonic() > deadline:
                return False
            time.sleep(_STEP_SECONDS)
        return True

    def _start_keeper(self) -> Identity:
        port = choose_port(self._root, "s3", self._addresses)
        # Before the start: a server that adopts it reads the port here.
        remember_port(self._root, "s3", port)
        command = make_command(self._root, self._addresses, port)
        log = (str(self._root.server_log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, *log),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        # In a session of its own it outlives us, and a Ctrl-C does not reach it.
        pid = os.posix_spawn(
            command[0], command, self._variables, file_actions=actions, setsid=True
        )
        identity = read_identity(pid)
        if identity is None:
            raise HostError("the S3 server ended at once", fix=f"see {self._root.server_log}")
        return identity

    def _watch(self) -> None:
        while not self._stopping.is_set():
            if self._keeper.ends_within(_LOOK_SECONDS) and not self._stopping.is_set():
                self._keeper = self._start_keeper()


def make_command(root: Root, addresses: tuple[str, ...], port: int) -> list[str]:
    """How the keeper and, below it, the server are started."""
    return [
        *(sys.executable, "-m", "stoker.platform.s3.keeper", str(root.folder)),
        *(sys.executable, "-m", "stoker.platform.s3", str(root.s3_dir)),
        *(f"{address}:{port}" for address in addresses),
    ]


def _variables(root: Root, credentials: Credentials) -> Mapping[str, str]:
    # Keys in the environment, not in the command: every user of the machine can read that.
    keys = f"{credentials.access_key},{credentials.secret_key}"
    return {**read_environment(), _KEYS: keys, _MARK: str(root.folder)}


def _end(process: Identity) -> None:
    process.signal(SIGTERM)
    if not process.ends_within(_END_SECONDS):
        process.signal(SIGKILL)
        process.ends_within(_END_SECONDS)


def _answers(address: str, port: int) -> bool:
    """Whether it answers a request: a server that hangs accepts connections, too."""
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_SECONDS) as client:
            client.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return bool(client.recv(1))
    except OSError:
        return False
