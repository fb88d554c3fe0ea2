"""Bounded work: so many at once, so many waiting, the rest is told to come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker.host.platform.faults import ApiFault


class Gate:
    """Lets so many in at once and so many wait; whoever comes later is refused at once."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most_waiting = waiting
        self._waiting = 0

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Wait for a place, hold it, give it back.

        Raises:
            ApiFault: ThrottlingException, which every SDK answers by a later try.
        """
        if self._waiting >= self._most_waiting:
            raise ApiFault("ThrottlingException", "Rate exceeded")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
