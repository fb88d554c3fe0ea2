"""A process that keeps the S3 server up and outlives the platform's: `keeper ROOT COMMAND…`.

Jobs continue while no server is there: their containers fetch code and write results meanwhile.
So S3 ends only when no server uses it and no job has a folder left. The next server of the root
adopts it. Standard library only: it costs a few MB while it waits.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from stoker.platform.model.root import Root

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.25
_RESTART_SECONDS = 0.5
_END_SECONDS = 10


def main(argv: list[str]) -> int:
    """Run the command, again whenever it ends, until nothing uses it."""
    root = Root(Path(argv[0]))
    signal.signal(signal.SIGTERM, _leave)
    while True:
        # Killed with us: two servers must never write into one root.
        process = subprocess.Popen(argv[1:], stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent)
        try:
            while process.poll() is None:
                time.sleep(_LOOK_SECONDS)
                if is_unused(root):
                    return 0
        finally:
            _end(process)
        print(
            f"the S3 server ended with code {process.returncode}: it is started again",
            file=sys.stderr,
            flush=True,
        )
        time.sleep(_RESTART_SECONDS)


def join_users(root: Root) -> int:
    """Become a user of the root's S3; one that is just ending is waited for.

    Returns:
        A descriptor; who closes it, or dies, is a user no longer.
    """
    lock = os.open(root.folder / "s3.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Users share the lock; the keeper that ends asks for all of it, and so keeps new users waiting
    # until it has ended.
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def is_unused(root: Root) -> bool:
    """Whether no server and no job is left; if so, none can join until this process has ended."""
    if has_jobs(root):
        return False
    try:
        lock = os.open(root.folder / "s3.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the whole root was removed
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True


def has_jobs(root: Root) -> bool:
    """Whether a job has a folder: its containers may run and need S3."""
    try:
        return any(root.jobs_dir.iterdir())
    except FileNotFoundError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    process.kill()
    process.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
