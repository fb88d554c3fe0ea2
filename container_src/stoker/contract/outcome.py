"""How a job ended, and telling SageMaker: exit code and failure file."""

from __future__ import annotations

import os

from stoker.contract.files import open_regular, read_regular, write_atomically
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
    # Undecodable output has lone surrogates, which are not UTF-8: they become question marks.
    text = make_readable(reason).encode("utf-8", "replace").decode("utf-8").strip()
    # Characters, not bytes: that is what the service counts.
    if len(text) <= FAILURE_LIMIT_CHARACTERS:
        return text
    return text[: FAILURE_LIMIT_CHARACTERS - 2].rstrip() + " …"


def make_readable(text: str) -> str:
    """The text without colours; of binary output a mark is left."""
    import re  # only a job that failed, or has rules, pays for it

    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r\n", "\n"))
    plain = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", plain)
    return re.sub(r"\ufffd{4,}", "(binary)", plain)


def read_failure(path: str) -> str:
    """What the script wrote there itself; empty if nothing."""
    try:
        # Four bytes are the longest character of UTF-8.
        content = read_regular(path, 4 * FAILURE_LIMIT_CHARACTERS)
        return content.decode("utf-8", "replace").strip()
    except OSError:
        return ""


def write_success(path: str) -> str | None:
    """Leaves the empty file that the stock toolkit leaves after a success, best effort.

    Returns:
        Why it could not be written, or None.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    except OSError as error:
        return f"{path} could not be written: {error.strerror}"
    return None


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
