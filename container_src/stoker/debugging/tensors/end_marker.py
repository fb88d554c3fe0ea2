"""The end marker of a tensors folder, and the claim that one process per worker writes into it."""

from __future__ import annotations

import fcntl
import os

from stoker.contract.debugger import END_MARKER
from stoker.contract.files import open_regular, remove_file
from stoker.debugging.tensors.layout import claim_file


def mark_end(folder: str, *, is_job: bool) -> None:
    """Tells readers that no step will come any more.

    Args:
        folder: of the saved tensors.
        is_job: whether this is a training job (TRAINING_JOB_NAME is set): then the launcher of the
            worker does it, once everything is uploaded, and this function does nothing.

    Raises:
        OSError: it cannot be written.
    """
    if not is_job:
        os.makedirs(folder, exist_ok=True)
        os.close(open_regular(f"{folder}/{END_MARKER}", os.O_WRONLY | os.O_CREAT))


def unmark_end(folder: str, *, is_job: bool) -> None:
    """Something comes after all: another run saves in the folder of one that has ended.

    Raises:
        OSError: the marker cannot be removed.
    """
    if not is_job:
        remove_file(f"{folder}/{END_MARKER}")


class Claim:
    """A lock on a file next to the tensors. The lock ends with its process; the file may stay."""

    def __init__(self, folder: str, worker: str) -> None:
        """
        Raises:
            OSError: the folder cannot be made or written.
        """
        os.makedirs(folder, exist_ok=True)
        self._file = f"{folder}/{claim_file(worker)}"
        self._descriptor = open_regular(self._file, os.O_WRONLY | os.O_CREAT)
        self.is_ours = self._lock()
        """Whether no other process saves as this worker."""

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def release(self) -> None:
        """Another process may have it."""
        # Removed while it is still locked: no other process can have taken it meanwhile.
        if self._descriptor >= 0 and self.is_ours:
            remove_file(self._file)
        self.forget()

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and goes with the last that has it open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
