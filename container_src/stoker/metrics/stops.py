"""What must be on file when this process stops: at its end, at SIGTERM, and across a fork."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from typing import Protocol
from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_FLUSH_SECONDS = 10.0
"""For everything together: a dead S3 must not eat up the grace time of a stop."""


class Keeper(Protocol):
    """Something that keeps back work of this process."""

    def flush(self, timeout_seconds: float) -> None:
        """Gets it done. Runs inside a signal handler, too: it must not wait for a lock."""

    def forget(self) -> None:
        """In a forked child: the work is the parent's."""


_KEEPERS: WeakSet[Keeper] = WeakSet()
_prepared_pid: int | None = None


def flush_at_stop(keeper: Keeper) -> None:
    """From now on `keeper` is flushed before this process ends, killed by SIGTERM included."""
    global _prepared_pid
    _KEEPERS.add(keeper)
    if _prepared_pid is None:
        atexit.register(_flush_all)
        os.register_at_fork(after_in_child=_forget_all)
    if _prepared_pid != os.getpid():
        _flush_at_end_of_child()
        _prepared_pid = os.getpid()
    _listen()


def _listen() -> None:
    """A script's own handler always wins: only the default action is replaced."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    _flush_all()
    # Called by a handler that was set after this one, which then decides what happens.
    if signal.getsignal(number) is not _stop:
        return
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _flush_all() -> None:
    keepers = list(_KEEPERS)
    for keeper in keepers:
        keeper.flush(_FLUSH_SECONDS / len(keepers))


def _forget_all() -> None:
    for keeper in list(_KEEPERS):
        keeper.forget()


def _flush_at_end_of_child() -> None:
    # Children of multiprocessing leave by os._exit: atexit is not for them, finalizers are.
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util and process and process.parent_process() is not None:
        util.Finalize(None, _flush_all, exitpriority=100)
