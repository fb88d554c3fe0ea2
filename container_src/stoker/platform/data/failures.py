"""What can go wrong around a container.

HostError
├── DownloadFailed      input, a manifest or a checkpoint did not arrive
├── UploadFailed        a model, output or a synced folder did not leave
└── TransferCancelled   the job was stopped meanwhile; not an error
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.errors import HostError


class DownloadFailed(HostError):
    """Input, a manifest or a checkpoint did not arrive."""


class UploadFailed(HostError):
    """A model, output or a synced folder did not leave."""


class TransferCancelled(HostError):
    """The job was stopped meanwhile; not an error."""


@contextmanager
def storing(what: object, place: Path) -> Iterator[None]:
    """Turn an error of the file system into the failure that says what could not be stored."""
    try:
        yield
    except OSError as error:
        raise DownloadFailed(
            f"{what} cannot be stored: {say(error)}", fix=make_disk_fix(error, place)
        ) from error


@contextmanager
def reading(what: object, place: Path) -> Iterator[None]:
    """Turn an error of the file system into the failure that says what could not be uploaded."""
    try:
        yield
    except OSError as error:
        raise UploadFailed(
            f"{what} cannot be uploaded: {say(error)}", fix=make_disk_fix(error, place)
        ) from error


def say(error: OSError) -> str:
    """The system's words, and the file they are about if they name one."""
    name = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return f"{error.strerror or error}{name}"


def make_disk_fix(error: OSError, place: Path | str) -> str:
    """What to do about an error of the file system below `place`."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"free space on the disk of {place} (see `df -h`), then submit the job again"
        case errno.EACCES | errno.EPERM:
            # A file of the user's has its whole path; one of a job's folder, only its name.
            name = error.filename if isinstance(error.filename, str) else ""
            denied = name if name.startswith("/") else place
            return f"make it readable and writable for the user who runs the platform: {denied}"
        case errno.ELOOP | errno.ENOTDIR | errno.EISDIR:
            return "replace the link or file that has the path of an expected folder or file"
        case errno.ENAMETOOLONG:
            return "use shorter names: a part of a path holds 255 bytes here, a whole path 4096"
        case _:
            return f"look at the disk of {place}, then submit the job again"
