"""Docker for the lab: bounded calls, and an engine that may die under us."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.errors import HostError

_LOST = ("Cannot connect to the Docker daemon", "error during connect", "connection refused")
MOST_OUTPUT_BYTES = 4 * 1024 * 1024
"""What is kept of a container's output; one may print gigabytes."""


class EngineLost(HostError):
    """The Docker engine stopped answering in mid-run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a call to the client ended."""

    code: int
    stdout: str
    stderr: str


def call(client: str, *arguments: str, timeout_seconds: float = 60) -> Answer:
    """Runs the client; a timeout is code 124, an engine that is gone an error.

    Raises:
        EngineLost: nobody answers any more.
    """
    argv: Sequence[str] = (client, *arguments)
    try:
        done = subprocess.run(argv, capture_output=True, timeout=timeout_seconds, check=False)
    except subprocess.TimeoutExpired:
        return Answer(code=124, stdout="", stderr=f"no answer within {timeout_seconds:.0f} s")
    stdout, stderr = (
        text[-MOST_OUTPUT_BYTES:].decode("utf-8", "replace") for text in (done.stdout, done.stderr)
    )
    if done.returncode != 0 and any(mark in stderr for mark in _LOST):
        raise EngineLost(
            "the Docker engine does not answer any more",
            fix="start it (docker/engine.sh) and run the check again",
        )
    return Answer(code=done.returncode, stdout=stdout, stderr=stderr)
