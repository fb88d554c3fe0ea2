"""Reading the platform's JSON files, and writing files that no reader sees half-written."""

from __future__ import annotations

import errno
import os
import stat
import time

from stoker.contract.quick_json import loads
from stoker.contract.upload_markers import temporary_path
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READ_LIMIT_BYTES = 16 * 1024 * 1024
"""No JSON or TOML file of a job comes near it; a longer one is cut, and so invalid."""

# Some editors begin a file with it, and JSON may not.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIX = "SageMaker writes a JSON object there: look at the test set-up or the mount that made it"


def read_object(path: str) -> dict[str, Any]:
    """Reads a JSON object; a file that is not there means "not configured" and is empty.

    Raises:
        ConfigInvalid: unreadable, not UTF-8, not JSON, or not an object.
    """
    try:
        content = read_regular(path, follow_links=True)
        text = content.removeprefix(_BYTE_ORDER_MARK).decode()
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise ConfigInvalid(f"{os.path.dirname(path)} is not a folder", fix=_FIX) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error.strerror}",
            fix=_FIX
            if error.errno == errno.EINVAL
            else "run the container as root, as SageMaker does, or make the file readable",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path} is not UTF-8 (byte {error.start})", fix=_FIX) from None
    return _parse_object(text, path)


def _parse_object(text: str, path: str) -> dict[str, Any]:
    if not text.strip():
        raise ConfigInvalid(f"{path} is empty, but a JSON object was expected", fix=_FIX)
    try:
        parsed = loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{path} is not valid JSON: {error}", fix=_FIX) from None
    if not isinstance(parsed, dict):
        raise ConfigInvalid(
            f"{path} holds a JSON {type(parsed).__name__}, but an object was expected", fix=_FIX
        )
    return parsed


def write_atomically(
    path: str, content: str, *, is_private: bool = False, outlives_machine: bool = True
) -> None:
    """Writes a whole file or none: temporary name, fsync, rename.

    Args:
        path: the file.
        content: all of it.
        is_private: it holds a secret: for its owner only.
        outlives_machine: whether it is read after a loss of power; fsync takes 5 ms and more.
    """
    # fsync before the rename: after a loss of power the new name must not point to empty blocks.
    temporary = temporary_path(path)
    remove_file(temporary)  # of a process with the same number, or put there to be in the way
    try:
        # "x" follows no link. "replace": half of a surrogate pair must not prevent an error's
        # report.
        with open(temporary, "x", encoding="utf-8", errors="replace") as file:
            if is_private:
                os.fchmod(file.fileno(), 0o600)  # before anything is in it
            file.write(content)
            if outlives_machine:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        remove_file(temporary)
        raise


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow_links: bool = False) -> int:
    """Opens a file in a place where a script may write, for reading or (by `flags`) for writing.

    A FIFO, a device, a socket or a link there would make us wait, or read without end.

    Args:
        path: what to open.
        flags: as of os.open.
        follow_links: for the user's own source, where links are common.

    Raises:
        OSError: it is not there, or is not a regular file.
    """
    # Without O_NONBLOCK the open of a FIFO waits for its other end.
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        # ELOOP: a link. ENXIO: a socket, or a FIFO that no process reads.
        if error.errno in (errno.ELOOP, errno.ENXIO):  # the kernel's words would puzzle
            raise _not_regular(path) from None
        raise
    # Of the open file: a look at the path before could be outrun by a rename.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def _not_regular(path: str) -> OSError:
    kinds = "a link, a FIFO, a device, a socket or a folder"
    return OSError(errno.EINVAL, f"it is not a regular file, but {kinds}", path)


def read_regular(
    path: str, limit_bytes: int = READ_LIMIT_BYTES, *, follow_links: bool = False
) -> bytes:
    """The first bytes of such a file: `limit_bytes` at most.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open(open_regular(path, follow_links=follow_links), "rb") as file:
        return file.read(limit_bytes) or b""  # None: a file of /proc that has nothing to say yet


def now_text() -> str:
    """The time as our files have it: ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def remove_file(path: str) -> None:
    """Removes a file; a file that is not there, or cannot be removed, is not an error."""
    try:
        os.remove(path)
    except OSError:
        return
