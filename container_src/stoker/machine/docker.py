"""The Docker engine of this machine: which client to use, which builder, and how to run them.

A `docker` on PATH need not be the engine's twin: clients from 23.0 on cannot drive BuildKit
without the buildx plugin, while Debian's older client can do it alone. So clients are asked what
they can do, never taken on trust.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.machine.failures import BuilderMissing, EngineMissing

_ANSWER_SECONDS = 30
_TAIL_LINES = 60
_DEBIAN_CLIENT = "/usr/bin/docker"
_FIRST_WITHOUT_BUILDKIT = 23


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """A client that can drive BuildKit."""

    name: str
    """What to call it in the output."""

    argv: tuple[str, ...]
    """How a build begins; the options of `docker build` follow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a command ended."""

    code: int
    """Its exit code."""

    tail: str
    """What it printed at the end; of a quiet command the error stream if it failed."""


def find_client() -> str:
    """The Docker client to use for everything but builds.

    Raises:
        EngineMissing: there is none.
    """
    clients = _clients()
    if not clients:
        raise EngineMissing("no Docker client on this machine", fix="run docker/engine.sh")
    return clients[0]


def require_engine(client: str) -> str:
    """Ask the engine for its version.

    Raises:
        EngineMissing: it does not answer; the text holds what the client said.
    """
    answer = ask([client, "version", "--format", "{{.Server.Version}}"])
    if answer.code != 0 or not answer.tail:
        raise EngineMissing(
            f"no Docker engine answers: {answer.tail or 'no output'}",
            fix="run docker/engine.sh (as root on Debian or Ubuntu it installs and starts one)",
        )
    return answer.tail


def find_builder() -> Builder:
    """The first client that can drive BuildKit: buildx, else a client older than 23.

    Raises:
        BuilderMissing: every client here is too new to build without buildx.
    """
    clients = _clients()
    for client in clients:
        if ask([client, "buildx", "version"]).code == 0:
            # The default builder is the engine itself: it sees local images and loopback.
            return Builder(
                name=f"{client} buildx",
                argv=(client, "buildx", "build", "--builder", "default", "--load"),
            )
    for client in clients:
        if _client_major(client) < _FIRST_WITHOUT_BUILDKIT:
            return Builder(
                name=f"{client} with its own BuildKit client",
                argv=("env", "DOCKER_BUILDKIT=1", client, "build"),
            )
    raise BuilderMissing(
        f"no client can drive BuildKit: {', '.join(clients) or 'none'} without the buildx plugin",
        fix="install the package docker-buildx (Debian, Ubuntu), docker-buildx-plugin (Docker's"
        " own packages) or docker.io of Debian 12",
    )


def image_present(client: str, image: str) -> bool:
    """Whether the engine holds the image."""
    return ask([client, "image", "inspect", "--format", "{{.Id}}", image]).code == 0


def image_labels(client: str, image: str) -> dict[str, str]:
    """The labels of a local image; empty when there are none or no such image."""
    answer = ask([client, "image", "inspect", "--format", "{{json .Config.Labels}}", image])
    labels = json.loads(answer.tail) if answer.code == 0 else None
    return labels if isinstance(labels, dict) else {}


def image_size_bytes(client: str, image: str) -> int | None:
    """The size of a local image; None when it is not there."""
    answer = ask([client, "image", "inspect", "--format", "{{.Size}}", image])
    return int(answer.tail) if answer.code == 0 else None


def ask(argv: Sequence[str], *, timeout_seconds: float = _ANSWER_SECONDS) -> Finished:
    """Run a short command quietly; a missing program or a timeout is an ordinary failure."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except FileNotFoundError:
        return Finished(code=127, tail=f"{argv[0]}: not found")
    except subprocess.TimeoutExpired:
        return Finished(code=124, tail=f"{argv[0]}: no answer within {timeout_seconds:.0f} s")
    said = (done.stdout.strip(), done.stderr.strip())
    return Finished(code=done.returncode, tail=said[0] if done.returncode == 0 else said[1])


def run_live(argv: Sequence[str], *, stdin_text: str | None = None) -> Finished:
    """Run a long command, showing each line as it comes and keeping the last ones.

    Args:
        argv: the command.
        stdin_text: written to its standard input (a password, which must not be an argument).
    """
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin_text is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        if process.stdin and stdin_text is not None:
            process.stdin.write(stdin_text)
            process.stdin.close()
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            tail.append(line)
    return Finished(code=process.returncode, tail="".join(tail))


def _clients() -> list[str]:
    found = (shutil.which(_DEBIAN_CLIENT), shutil.which("docker"))
    return list(dict.fromkeys(client for client in found if client))


def _client_major(client: str) -> int:
    version = re.search(r"version (\d+)\.", ask([client, "--version"]).tail)
    return int(version[1]) if version else sys.maxsize
