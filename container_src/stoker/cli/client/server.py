"""The server of a root: who serves it, start one, end it for good."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from stoker.errors import HostError
from stoker.machine.environment import default_root
from stoker.machine.processes import (
    Process,
    descendants_in_session,
    is_running_module,
    read_process,
    wait_until_gone,
)
from stoker.platform.model.root import Root, ServerInfo, read_server_info

EngineName = Literal["auto", "docker", "process"]
MODULE = "stoker.platform"
_READY_SECONDS = 120
_END_SECONDS = 120
_STEP_SECONDS = 0.05
_CONNECT_SECONDS = 2
_LOG_LINES = 8  # the end has the reason


class ServerFailed(HostError):
    """The platform's server did not start, or does not end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """How a server is started where none runs."""

    engine: EngineName = "auto"
    port: int = 0
    """0: one that is free."""

    slots: int | None = None
    """How many jobs run side by side; the server's own choice when left out."""


def make_command(root: Root, options: ServerOptions) -> list[str]:
    """The command of a server."""
    command = [sys.executable, "-m", MODULE, "--root", str(root.folder)]
    command += ["--port", str(options.port), "--engine", options.engine]
    return command + (["--slots", str(options.slots)] if options.slots else [])


def find_server(root: Root) -> ServerInfo | None:
    """Who serves the root now; a file that a killed server left behind does not count."""
    server = read_server_info(root)
    # The number may belong to another program by now.
    if server is None or not is_running_module(server.pid, MODULE):
        return None
    address = urlsplit(server.endpoint)
    try:
        with socket.create_connection(
            (address.hostname or "", address.port or 0), timeout=_CONNECT_SECONDS
        ):
            return server
    except OSError:
        return None


def require_server(root: Root) -> ServerInfo:
    """Who serves the root.

    Raises:
        HostError: there is none.
    """
    server = find_server(root)
    if server is None:
        is_default = root.folder == default_root()
        named = "" if is_default else f" --root {shlex.quote(str(root.folder))}"
        raise HostError(
            f"no platform runs on {root.folder}",
            fix=f"start it: stoker local up --detach{named}, or name its folder: --root DIR",
        )
    return server


def start_server(root: Root, options: ServerOptions) -> ServerInfo:
    """Start a server that outlives us and wait until it answers.

    Raises:
        ServerFailed: it ended, or never answered; the text has its last words.
    """
    with root.server_log.open("ab") as log:
        before = log.tell()
        # A session of its own: Ctrl-C and a closed terminal do not reach it.
        process = subprocess.Popen(
            make_command(root, options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + _READY_SECONDS
    while (server := find_server(root)) is None:
        # Of two that start at once one ends, and the answer of the one with the lock is awaited.
        is_hopeless = process.poll() is not None and _is_lock_free(root)
        if is_hopeless or time.monotonic() > deadline:
            # Also when it only took too long: a server that comes up later would surprise the
            # user.
            process.kill()
            process.wait()
            raise ServerFailed(
                f"the platform did not start:\n{_last_words(root.server_log, before)}",
                fix=f"see {root.server_log}; `stoker doctor` looks for the usual causes",
            )
        time.sleep(_STEP_SECONDS)
    return server


def stop_server(root: Root) -> bool:
    """End the server and return only when all of it is gone; jobs continue in their engine.

    Returns:
        Whether there was one.

    Raises:
        ServerFailed: something of it is still there after two minutes.
    """
    holder = _holder(root)
    if holder is None:
        return False
    # Before the signal: without its parent, a child could not be found any more.
    processes = [holder, *descendants_in_session(holder)]
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    left = wait_until_gone(processes, timeout_seconds=_END_SECONDS)
    if left or not _is_lock_free(root):
        raise ServerFailed(
            f"the platform on {root.folder} does not end: process "
            f"{', '.join(str(p.pid) for p in left) or holder.pid}",
            fix=f"see {root.server_log}; kill -9 {holder.pid} ends it, no job is lost",
        )
    return True


def _holder(root: Root) -> Process | None:
    """The process that took the root's lock, ready or not."""
    try:
        pid = int(root.lock_file.read_text().strip() or 0)
    except (OSError, ValueError):
        return None
    process = read_process(pid) if pid and is_running_module(pid, MODULE) else None
    return process if process and process.is_alive else None


def _is_lock_free(root: Root) -> bool:
    """Asked only when a server has ended: trying a lock takes it, if for a moment."""
    descriptor = os.open(root.lock_file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _last_words(file: Path, start_byte: int) -> str:
    with file.open("rb") as log:
        log.seek(start_byte)
        lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:]) or "  it said nothing"
