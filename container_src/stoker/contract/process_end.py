"""What happens when this process ends, is stopped, or forks.

Work that is kept back (a queue, a step that is not over) is finished at the end, also in children
of multiprocessing, which leave by os._exit. A forked child forgets it: it is the parent's work.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import IntEnum
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import ref

if TYPE_CHECKING:
    from types import FrameType, MethodType

_STOP_SECONDS = 10.0
"""For everything together: a dead S3 must not eat up the grace time of a stop."""
_END_SECONDS = 60.0
"""For each stage of an ordinary end, where no SIGKILL is about to come."""
_LOG = logging.getLogger("stoker")


class Stage(IntEnum):
    """In which order work is finished: each stage may hand something to the next."""

    SOURCE = 0
    WRITER = 1
    OUTLET = 2


class _Keeper(NamedTuple):
    """An object that keeps back work, and what to call; it may go before the process does."""

    # Not WeakMethod: while the interpreter ends, it prints errors of its own.
    owner: ref[object]
    finish: Callable[[object, float], object]
    forget: Callable[[object], object]
    stage: Stage
    at_stop: bool


_KEEPERS: dict[int, _Keeper] = {}
_NUMBERS = itertools.count()


def at_end(
    finish: Callable[[float], object],
    *,
    forget: Callable[[], object],
    stage: Stage,
    at_stop: bool = False,
) -> None:
    """From now on the work of an object is finished before this process ends.

    Args:
        finish: method that gets the work done within some seconds. It may be called twice.
        forget: method that drops the work, in a forked child.
        stage: when, compared with the work of others.
        at_stop: also before SIGTERM ends the process, unless the script has a handler of its own.
            `finish` is then called by a signal handler: it must not wait for a lock.
    """
    _watch_process()
    number = next(_NUMBERS)
    # A dict, since other threads add to it, and objects go, while it is read.
    # Only the functions are kept: a bound method would keep its object alive for ever.
    finish_method, forget_method = cast("MethodType", finish), cast("MethodType", forget)
    owner = ref(finish_method.__self__, lambda _: _KEEPERS.pop(number, None))
    _KEEPERS[number] = _Keeper(
        owner, finish_method.__func__, forget_method.__func__, stage, at_stop
    )
    finish_in_child()
    if at_stop:
        _listen()


def finish_in_child() -> None:
    """Called where there is work again: a child that multiprocessing forks has no finalizers."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and is_child():
        _finalize(os.getpid(), util.Finalize)


def is_child() -> bool:
    """Whether multiprocessing started this process: a helper, not a new attempt."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


@cache
def _watch_process() -> None:
    # Once, and early: functions that the script registers later are called before it.
    atexit.register(_finish_all)
    os.register_at_fork(after_in_child=_forget_all)


# Cached by process id: a child that forks again registers again.
@cache
def _finalize(_process: int, finalize: Callable[..., object]) -> None:
    # Children of multiprocessing leave by os._exit: atexit is not for them.
    # 100 is before multiprocessing's own (a pool has 15): pools and queues still work then.
    finalize(None, _finish_all, exitpriority=100)


def _finish_all() -> None:
    # In rising order: the open step goes to the writer, and what was written to the uploaders.
    for stage in Stage:
        _finish([each for each in _list_keepers() if each.stage is stage], _END_SECONDS)


def _listen() -> None:
    """A script's own handler always wins: only the default action is replaced."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    _finish([each for each in _list_keepers() if each.at_stop], _STOP_SECONDS)
    # Called by a handler that was set after this one, which then decides what happens.
    if signal.getsignal(number) is not _stop:
        return
    # The exit status then says SIGTERM, as without a handler: the launcher reports a stop.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _finish(keepers: list[_Keeper], timeout_seconds: float) -> None:
    for keeper in keepers:
        if (owner := keeper.owner()) is not None:
            _call(partial(keeper.finish, owner, timeout_seconds / len(keepers)))


def _forget_all() -> None:
    for keeper in _list_keepers():
        if (owner := keeper.owner()) is not None:
            _call(partial(keeper.forget, owner))


def _list_keepers() -> list[_Keeper]:
    return list(_KEEPERS.values())


def _call(method: Callable[[], object]) -> None:
    try:
        method()
    except Exception:  # one object's failure must not lose the work of the others
        _LOG.exception("internal error at the end of a process or in a forked child")
