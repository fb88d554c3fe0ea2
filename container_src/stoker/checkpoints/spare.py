"""The file of a checkpoint that has been removed, kept for the next save to write over.

Its blocks are already allocated: to free a gibibyte and to allocate another one takes as long as
to write it, and slows the training down more. At most one is kept, so the disk never holds more
than it did while a checkpoint was being written.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from contextlib import suppress

from stoker.checkpoints.draft import PREFIX, SPARE, hide, remove_hidden
from stoker.contract.files import open_regular

_FILE_SYSTEMS = {"ext2", "ext3", "ext4", "tmpfs", "xfs"}


class Spare:
    """What one writer keeps next to its checkpoints, under a name that a sweep removes."""

    def __init__(self, folder: str, token: str, file_name: str) -> None:
        """Args:
        folder: where the checkpoints are.
        token: differs between writers.
        file_name: of this writer's file in each checkpoint.
        """
        self._name = file_name
        self._path = f"{folder}/{PREFIX}{token}{SPARE}"

    def remove(self, checkpoint: str) -> None:
        """Removes a checkpoint in one step; keeps its file unless another process may need it."""
        hidden = hide(checkpoint)
        if not os.path.islink(hidden):
            self._keep(f"{hidden}/{self._name}")
        remove_hidden(hidden)

    def _keep(self, file: str) -> None:
        if os.path.exists(self._path) or not _sees_readers(os.path.dirname(file)):
            return
        kept = f"{self._path}/{self._name}"
        with suppress(OSError):
            os.mkdir(self._path)
            # First: once it is here, a process that has not opened it yet cannot find it.
            os.rename(file, kept)
        if not _is_unused(kept):
            self.drop()

    def hand_to(self, path: str) -> None:
        """Puts the file where the next one is written; without one, nothing is there."""
        with suppress(OSError):
            os.rename(f"{self._path}/{self._name}", path)
        self.drop()

    def drop(self) -> None:
        """Keeps nothing any more."""
        shutil.rmtree(self._path, ignore_errors=True)


def _sees_readers(folder: str) -> bool:
    """Whether the file system knows every process that has a file open or mapped.

    An overlay does not: a file mapped through it does not count as open on the layer below, and
    the lease would be granted although a reader exists. So the file systems that do are listed.
    """
    try:
        device = os.stat(folder).st_dev
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    # … major:minor … - type source options
    types = {words[words.index("-") + 1] for words in mounts if words[2] == number}
    return bool(types) and types <= _FILE_SYSTEMS


def _is_unused(path: str) -> bool:
    """Whether no other process has the file open or mapped, and it has no second name.

    A reader of an unlinked file is not disturbed; a reader of a file that is overwritten is.
    """
    try:
        handle = open_regular(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        # The kernel grants a lease for writing only to the one process that has a file open.
        # If a process opened it now, the default SIGIO would end us; SIGURG is ignored.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return os.fstat(handle).st_nlink == 1
    except OSError:  # another process has it open, or the file system has no leases
        return False
    finally:
        os.close(handle)
