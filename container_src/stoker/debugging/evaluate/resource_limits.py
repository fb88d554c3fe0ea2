"""The training goes first: what this process may take of the machine."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence

NICENESS = 10
"""It gets what the training leaves of one processor."""

MEMORY_SHARE = 4
"""The part of the container's memory, or the machine's, that it may allocate: a fourth."""

LEAST_MEMORY_BYTES = 2 << 30

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of the container, in the two versions of cgroups; without a limit `max`, or a huge number."""

_OOM_SCORE = "/proc/self/oom_score_adj"
_KILLED_FIRST = "1000"


def limit_resources() -> None:
    """Niced; bounded in memory, so that a rule that hoards is an Error; and the first to go.

    Mapped files do not count: the kernel takes their pages back whenever memory is short.
    """
    os.nice(NICENESS)
    limit_bytes = memory_share_bytes(_LIMITS)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    # RLIMIT_DATA counts private memory since Linux 4.7, mapped files not.
    if hard == resource.RLIM_INFINITY or hard >= limit_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))
    try:
        with open(_OOM_SCORE, "w") as file:
            file.write(_KILLED_FIRST)
    except OSError:
        return  # a kernel without it; then this is a process like any other


def memory_share_bytes(limit_files: Sequence[str]) -> int:
    """What this process may allocate.

    Args:
        limit_files: each may hold a limit for the whole container.
    """
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits_bytes = [limit for file in limit_files if (limit := _read_limit(file)) is not None]
    return max(LEAST_MEMORY_BYTES, min([total_bytes, *limits_bytes]) // MEMORY_SHARE)


def _read_limit(file: str) -> int | None:
    try:
        with open(file, encoding="ascii") as opened:
            return int(opened.read())
    except (OSError, ValueError):
        return None  # no such version, or no limit
