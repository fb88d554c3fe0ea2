"""A checkpoint that is being written: a folder that readers ignore until it is renamed.

The writer holds a lock on the folder. The kernel releases it when the writer dies, however it
dies, so a leftover differs from another writer's work without clocks or process numbers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress

from stoker.checkpoints.upload_state import names_in
from stoker.contract.files import write_atomically
from stoker.contract.upload_markers import IGNORED
from stoker.errors import CheckpointFailed

PREFIX = "stoker-"
SPARE = f"-spare{IGNORED}"
_ATTEMPTS = 100


class Draft:
    """A temporary folder next to the checkpoints, locked by the process that made it."""

    def __init__(self, folder: str, token: str) -> None:
        """Makes the folder and locks it.

        Args:
            folder: where the checkpoints are.
            token: differs between writers; the ranks of one job agree on one.
        """
        self._parent = folder
        self.path = f"{folder}/{PREFIX}{token}{IGNORED}"
        for _ in range(_ATTEMPTS):
            os.makedirs(self.path, exist_ok=True)
            if self._lock():
                return
        raise CheckpointFailed(
            f"{self.path} is removed each time it is made",
            fix="another program cleans this folder: exclude *.sagemaker-ignore there",
        )

    def _lock(self) -> bool:
        """False if another process removed the folder between its creation and its locking."""
        try:
            self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        with suppress(OSError):  # a file system without locks: then nothing is swept there
            # Shared: all ranks of a host hold the same draft, and a sweep asks for the exclusive
            # lock.
            fcntl.flock(self._handle, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._handle), os.stat(self.path)):
                return True
        os.close(self._handle)
        return False

    def write(self, name: str, text: str) -> None:
        """Writes a small file of the draft, durably."""
        write_atomically(f"{self.path}/{name}", text)

    def publish(self, name: str) -> bool:
        """Gives the draft its name, in one step; False if the name is taken.

        On a file system that several hosts share one of them does it for all.
        """
        # The names in the folder, before its own: after a loss of power a checkpoint with its
        # final name has all files.
        os.fsync(self._handle)
        try:
            os.rename(self.path, f"{self._parent}/{name}")
        # Another host has renamed it, on a file system that both see.
        except FileNotFoundError:
            if not os.path.isdir(f"{self._parent}/{name}"):
                raise
        except OSError:
            if not os.path.lexists(f"{self._parent}/{name}"):
                raise
            return False
        sync_folder(self._parent)
        os.close(self._handle)
        return True

    def close(self) -> None:
        """Releases it: another rank of this host has given it its name."""
        os.close(self._handle)

    def discard(self) -> None:
        """Removes it all; what cannot be removed now is swept later."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)


def sweep(folder: str) -> list[str]:
    """Removes what writers that died have left, and returns the names of their drafts."""
    ours = [n for n in names_in(folder) if n.startswith(PREFIX) and n.endswith(IGNORED)]
    gone = [name for name in ours if _remove_if_abandoned(f"{folder}/{name}")]
    return [name for name in gone if not name.endswith(SPARE)]


def remove_whole(path: str) -> None:
    """Removes a checkpoint so that no reader ever sees half of it."""
    remove_hidden(hide(path))


def remove_hidden(path: str) -> None:
    """Removes what is out of sight; of a link the link alone."""
    if os.path.islink(path):
        with suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def hide(path: str) -> str:
    """Takes a checkpoint out of sight, in one step, to be removed; returns where it is now."""
    parent, name = os.path.split(path)
    hidden = f"{parent}/{PREFIX}{name}{IGNORED}"
    remove_hidden(hidden)  # of a removal that was cut short
    with suppress(FileNotFoundError):
        os.rename(path, hidden)
    return hidden


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_if_abandoned(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        # Fails while its writer lives; the kernel releases the lock of a dead one.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
