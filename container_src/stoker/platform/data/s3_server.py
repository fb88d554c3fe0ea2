"""The embedded S3 server: rclone over a plain folder, as a child that never outlives us."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

from stoker.errors import HostError
from stoker.machine.environment import read_environment
from stoker.platform.model.ports import choose_port, remember_port
from stoker.platform.model.root import Credentials, Root, read_credentials

LOOPBACK = "127.0.0.1"
_READY_SECONDS = 60
_END_SECONDS = 10
_STEP_SECONDS = 0.02
_RESTART_SECONDS = 0.5
_CONNECT_SECONDS = 2
# rclone has no option to end with its parent, but the kernel has. It is asked by the child
# itself, between fork and exec: preexec_fn may hang in a process with threads. The parent may
# have died before that: then the child belongs to somebody else already.
_BOUND_EXEC = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])
"""

_log = logging.getLogger(__name__)


class S3Server:
    """A running S3 server; one that dies is started again on the same port."""

    def __init__(self, root: Root, addresses: tuple[str, ...], port: int) -> None:
        self.port = port
        self.address = f"{addresses[0]}:{port}"
        self._command = make_command(root, addresses, port)
        self._variables = _variables(read_credentials(root))
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        # The kernel counts the thread that forked as the parent: this one stays.
        self._keeper = threading.Thread(target=self._keep, name="s3-keeper", daemon=True)

    @classmethod
    def start(cls, root: Root, addresses: tuple[str, ...] = (LOOPBACK,)) -> S3Server:
        """Start the server and wait until it answers on every address.

        Args:
            root: whose `s3` folder is served, with whose keys.
            addresses: where to listen, loopback first.

        Raises:
            HostError: rclone is missing, or does not answer.
        """
        _remove_half_received(root)
        server = cls(root, addresses, choose_port(root, "s3", addresses))
        server._keeper.start()
        deadline = time.monotonic() + _READY_SECONDS
        while not all(_answers(address, server.port) for address in addresses):
            if time.monotonic() > deadline:
                server.stop()
                raise HostError(
                    f"the S3 server does not answer on port {server.port} of {addresses}",
                    fix="the lines above are its own words; `stoker doctor` checks the machine",
                )
            time.sleep(_STEP_SECONDS)
        remember_port(root, "s3", server.port)
        return server

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
        self._keeper.join(_END_SECONDS)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._process = subprocess.Popen(
                self._command, env=self._variables, stdin=subprocess.DEVNULL
            )
            if self._stopping.is_set():
                self._process.terminate()
            code = self._process.wait()
            if not self._stopping.wait(_RESTART_SECONDS):
                _log.warning("the S3 server ended with code %d: it is started again", code)


def make_command(root: Root, addresses: tuple[str, ...], port: int) -> list[str]:
    """How rclone is started.

    Raises:
        HostError: there is no rclone.
    """
    listen = [part for address in addresses for part in ("--addr", f"{address}:{port}")]
    return [
        *(sys.executable, "-ISc", _BOUND_EXEC, str(os.getpid()), find_rclone(), "serve", "s3"),
        *listen,
        # Files put directly into the folder must be seen at once. Not 0s: rclone then spins.
        *("--dir-cache-time", "100ms", "--log-level", "ERROR"),
        str(root.s3_dir),
    ]


def find_rclone() -> str:
    """The program: of our own Python environment, else of PATH.

    Raises:
        HostError: there is none.
    """
    ours = Path(sysconfig.get_path("scripts")) / "rclone"
    found = str(ours) if ours.is_file() else shutil.which("rclone")
    if not found:
        raise HostError(
            "rclone, which serves the platform's S3, is not installed",
            fix="pip install 'stoker[host]'",
        )
    return found


def _variables(credentials: Credentials) -> dict[str, str]:
    # Keys in the environment, not in the command: every user of the machine can read that.
    # rclone reads the variable as CSV, so the pair is quoted; the user's own rclone settings
    # (a configuration, a log file, a bandwidth limit) are not meant for this one.
    theirs = {k: v for k, v in read_environment().items() if not k.startswith("RCLONE_")}
    pair = f'"{credentials.access_key},{credentials.secret_key}"'
    return {**theirs, "RCLONE_AUTH_KEY": pair, "RCLONE_CONFIG": ""}


def _remove_half_received(root: Root) -> None:
    """What a killed server leaves of uploads: nobody sees it as an object, but it takes room."""
    for file in root.s3_dir.rglob(".rclone_temp_*"):
        file.unlink(missing_ok=True)


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False
