"""How a job ended, and telling SageMaker: exit code and failure file."""

from __future__ import annotations

import os

from stoker.contract.files import write_atomically
from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

FAILURE_LIMIT_CHARACTERS = 1024
"""SageMaker shows no more than this as FailureReason."""


class Outcome(Record):
    """The end of a job. The exit code is decided before any file is written."""

    kind: Literal["success", "stopped", "failed"]
    exit_code: int
    reason: str = ""
    """Most useful words first; empty for a success."""


def exit_code_of(wait_status: int) -> int:
    """The exit code of a process: its own, or 128 + the signal that killed it."""
    code = os.waitstatus_to_exitcode(wait_status)
    return 128 - code if code < 0 else code


def make_failure_text(reason: str) -> str:
    """Cuts a reason to what SageMaker keeps, marking the cut."""
    text = reason.encode("utf-8", "replace").decode("utf-8").strip()
    if len(text) <= FAILURE_LIMIT_CHARACTERS:
        return text
    return text[: FAILURE_LIMIT_CHARACTERS - 2].rstrip() + " …"


def read_failure(path: str) -> str:
    """What the script wrote there itself; empty if nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def write_failure(path: str, reason: str) -> str | None:
    """Writes the failure file, best effort: the exit code alone makes the job fail.

    Returns:
        Why it could not be written, or None.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, make_failure_text(reason))
    except OSError as error:
        return f"{path} could not be written: {error.strerror}"
    return None
