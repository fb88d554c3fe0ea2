"""What must be on file when this process stops: at its end, at SIGTERM, and across a fork."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from typing import Protocol
from weakref import WeakSet

from stoker.metrics.ranks import is_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_STOP_SECONDS = 10.0
"""For everything together: a dead S3 must not eat up the grace time of a stop."""
_END_SECONDS = 60.0
"""The same at an ordinary end, where nobody is about to send SIGKILL."""


class Keeper(Protocol):
    """Something that keeps back work of this process."""

    def flush(self, timeout_seconds: float) -> None:
        """Gets it done. Runs inside a signal handler, too: it must not wait for a lock."""

    def forget(self) -> None:
        """In a forked child: the work is the parent's."""


_KEEPERS: WeakSet[Keeper] = WeakSet()
_HOOKED: list[bool] = []
"""Not empty once the hooks are set that forked children inherit."""
_FINALIZED: set[int] = set()
"""This process, once it has the one they do not inherit."""


def flush_at_stop(keeper: Keeper) -> None:
    """From now on `keeper` is flushed before this process ends, killed by SIGTERM included."""
    _KEEPERS.add(keeper)
    if not _HOOKED:
        _HOOKED.append(True)
        atexit.register(_flush_all)
        os.register_at_fork(after_in_child=_forget_all)
    _listen()


def flush_at_end_of_child() -> None:
    """Called where there is work again: what multiprocessing forks has lost its finalizers."""
    # Its children leave by os._exit: atexit is not for them.
    util = sys.modules.get("multiprocessing.util")
    if util is not None and is_child() and os.getpid() not in _FINALIZED:
        _FINALIZED.add(os.getpid())
        util.Finalize(None, _flush_all, exitpriority=100)


def _listen() -> None:
    """A script's own handler always wins: only the default action is replaced."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    _flush_all(_STOP_SECONDS)
    # Called by a handler that was set after this one, which then decides what happens.
    if signal.getsignal(number) is not _stop:
        return
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _flush_all(timeout_seconds: float = _END_SECONDS) -> None:
    keepers = list(_KEEPERS)
    for keeper in keepers:
        keeper.flush(timeout_seconds / len(keepers))


def _forget_all() -> None:
    for keeper in list(_KEEPERS):
        keeper.forget()
