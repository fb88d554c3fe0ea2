"""The training goes first: what this process may take of the machine."""

from __future__ import annotations

import os
import resource

NICENESS = 10
"""It gets what the training leaves of one processor."""

MEMORY_SHARE = 4
"""The part of the machine's memory that it may allocate: a fourth."""

LEAST_MEMORY_BYTES = 2 << 30

_OOM_SCORE = "/proc/self/oom_score_adj"
_KILLED_FIRST = "1000"


def be_modest() -> None:
    """Niced; bounded in memory, so that a rule that hoards is an Error; and the first to go.

    Mapped files do not count: the kernel takes their pages back whenever somebody needs them.
    """
    os.nice(NICENESS)
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit_bytes = max(LEAST_MEMORY_BYTES, total_bytes // MEMORY_SHARE)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or hard >= limit_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))
    try:
        with open(_OOM_SCORE, "w") as file:
            file.write(_KILLED_FIRST)
    except OSError:
        return  # a kernel without it; the training is no worse off than with any other process
