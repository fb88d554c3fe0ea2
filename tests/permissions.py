"""Root without its power over the modes of files, so that tests meet what other users meet."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_OVER_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@contextmanager
def modes_count() -> Iterator[None]:
    """In this thread, and in those that it starts meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; the same of 32 more
    _check(libc.capget(header, sets))
    before, sets[0] = sets[0], sets[0] & ~_OVER_MODES
    _check(libc.capset(header, sets))
    try:
        yield
    finally:
        sets[0] = before
        _check(libc.capset(header, sets))


def _check(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
