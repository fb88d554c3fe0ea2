"""The Docker engine of this machine: which client to use, which builder, and how to run them.

A `docker` on PATH need not be the engine's twin: clients from 23.0 on cannot drive BuildKit
without the buildx plugin, while Debian's older client can do it alone. So clients are asked what
they can do, never taken on trust.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import IO, TextIO

from stoker.machine.environment import read_environment
from stoker.machine.failures import BuilderMissing, EngineLost, EngineMissing
from stoker.machine.terminal import Terminal

TIMED_OUT = 124
"""The exit code of a command that did not answer in time."""
_ANSWER_SECONDS = 30
_MOST_OUTPUT_BYTES = 4 * 1024 * 1024  # a container may print gigabytes
# What the client prints when it does not reach the engine: its exit code does not say so.
_LOST_MARKS = ("cannot connect to the docker daemon", "error during connect")
_TAIL_LINES = 60
_TICK_SECONDS = 1.0
# Debian's own package can build without buildx, a newer client that comes before it on PATH
# cannot.
_DEBIAN_CLIENT = "/usr/bin/docker"
_FIRST_WITHOUT_BUILDKIT = 23
_FLAVORS = ("cpu", "cuda", "sklearn", "tensorflow")
_ENGINE_SCRIPT = Path(__file__).parents[3] / "docker/engine.sh"  # of a clone; a wheel has none


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

    stdout: str = ""
    stderr: str = ""

    @property
    def tail(self) -> str:
        """What it has to say: its output or, if it failed, its errors."""
        return (self.stdout if self.code == 0 else self.stderr).strip()


def find_client() -> str:
    """The Docker client to use for everything but builds.

    Raises:
        EngineMissing: there is none.
    """
    clients = _clients()
    if not clients:
        raise EngineMissing("no Docker client on this machine", fix=make_engine_fix())
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
            fix=make_engine_fix(),
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


def make_engine_fix() -> str:
    """How to get an engine: an installed wheel has no docker/engine.sh."""
    if _ENGINE_SCRIPT.is_file():
        return "run docker/engine.sh (as root on Debian or Ubuntu it installs and starts one)"
    return "install and start Docker: https://docs.docker.com/engine/install/"


def make_image_fix(image: str) -> str:
    """How to get an image that is not there."""
    if not image.startswith("stoker:"):
        return f"docker pull {image}"
    flavor = image.partition(":")[2]
    build = f"stoker build --flavor {flavor}" if flavor in _FLAVORS else "stoker build"
    return build if _ENGINE_SCRIPT.is_file() else f"in a clone of Stoker: {build}"


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


def ask(
    argv: Sequence[str],
    *,
    timeout_seconds: float = _ANSWER_SECONDS,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Finished:
    """Run a short command quietly; a missing program or a timeout is an ordinary failure.

    Args:
        argv: the command.
        timeout_seconds: how long it may take.
        variables: added to its environment, which, unlike a command, no other user can read.
    """
    environ = {**read_environment(), **variables}
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=timeout_seconds, check=False, env=environ
        )
    except FileNotFoundError:
        return Finished(code=127, stderr=f"{argv[0]}: not found")
    except subprocess.TimeoutExpired:
        said = f"{argv[0]}: no answer within {timeout_seconds:.0f} s"
        return Finished(code=TIMED_OUT, stderr=said)
    stdout, stderr = (
        text[-_MOST_OUTPUT_BYTES:].decode("utf-8", "replace")
        for text in (done.stdout, done.stderr)
    )
    return Finished(code=done.returncode, stdout=stdout, stderr=stderr)


def call(client: str, *arguments: str, timeout_seconds: float = 60) -> Finished:
    """Run the Docker client; a timeout is an ordinary failure.

    Raises:
        EngineLost: the engine does not answer any more.
    """
    answer = ask([client, *arguments], timeout_seconds=timeout_seconds)
    if is_engine_lost(answer):
        raise EngineLost(
            "the Docker engine does not answer any more",
            fix="start it and run the command again",
        )
    return answer


def is_engine_lost(answer: Finished) -> bool:
    """Whether the client failed because it did not reach the engine."""
    said = answer.stderr.lower()
    return answer.code != 0 and any(mark in said for mark in _LOST_MARKS)


def run_live(
    argv: Sequence[str],
    *,
    stdin_text: str | None = None,
    describe: Callable[[str], str] = lambda _: "",
    stream: TextIO | None = None,
) -> Finished:
    """Run a long command, showing each line as it comes and keeping the last ones.

    Args:
        argv: the command.
        stdin_text: written to its standard input (a password, which must not be an argument).
        describe: gets each line, and an empty text every second without one; returns what the
            command is doing, for the line at the bottom of the terminal.
        stream: where the lines are shown, in place of stdout.
    """
    terminal = Terminal(stream)
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
        for line in _lines_or_ticks(process.stdout or io.StringIO()):
            if line:
                terminal.line(line.rstrip("\n"))
                tail.append(line)
            terminal.progress(describe(line))
        terminal.status("")
    # One stream holds both, and either may be asked for.
    return Finished(code=process.returncode, stdout="".join(tail), stderr="".join(tail))


def _lines_or_ticks(stream: IO[str]) -> Iterator[str]:
    """The lines of a stream as they come, and an empty text for each second without one."""
    lines: SimpleQueue[str | None] = SimpleQueue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    # A thread, as a read of the pipe cannot be given a time; it ends with the process.
    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_TICK_SECONDS)
        except Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


def _clients() -> list[str]:
    found = (shutil.which(_DEBIAN_CLIENT), shutil.which("docker"))
    return list(dict.fromkeys(client for client in found if client))


def _client_major(client: str) -> int:
    version = re.search(r"version (\d+)\.", ask([client, "--version"]).tail)
    return int(version[1]) if version else sys.maxsize
