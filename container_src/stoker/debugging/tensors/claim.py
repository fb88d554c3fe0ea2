"""Who saves the steps of a worker: two processes would replace each other's."""

from __future__ import annotations

import fcntl
import os

from stoker.contract.files import remove_file
from stoker.debugging.tensors.layout import claim_file


class Claim:
    """A lock on a file beside the tensors. With its process the lock goes, if not the file."""

    def __init__(self, folder: str, worker: str) -> None:
        """
        Raises:
            OSError: the folder cannot be made or written.
        """
        os.makedirs(folder, exist_ok=True)
        self._file = f"{folder}/{claim_file(worker)}"
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
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
        if self._descriptor >= 0 and self.is_ours:
            remove_file(self._file)
        self.forget()

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and goes with the last that has it open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
