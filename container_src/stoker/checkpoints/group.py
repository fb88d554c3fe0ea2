"""The ranks that save one checkpoint together: one process alone. Of torchrun: `ranks.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Group:
    """One process that agrees with itself; also the shape of the other kind."""

    rank = 0
    size = 1
    local_rank = 0
    local_size = 1

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    @property
    def is_local_leader(self) -> bool:
        """The first on its host: it does what is done once per disk."""
        return self.local_rank == 0

    def gather(self, value: _T) -> list[_T]:
        """What each rank says, in the order of the ranks. All must call it."""
        return [value]

    def share(self, value: _T) -> _T:
        """What the leader says."""
        return value

    def exchange(self, requests: int) -> Callable[[], int]:
        """Starts to combine the requests (bits) of all ranks; the result waits for them."""
        return lambda: requests
