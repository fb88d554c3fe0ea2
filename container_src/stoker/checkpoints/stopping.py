"""Leaving early: once all ranks know of the request, at the same step, and reporting it."""

from __future__ import annotations

from collections.abc import Callable

from stoker.bus.stop import Left, find_stop, seconds_left, stop_listener, write_left
from stoker.checkpoints.group import Group
from stoker.contract.job import Job

_STOP, _TIME = 1, 2


class Stopping:
    """What the ranks of a job request, combined between two steps.

    The requests of one step are exchanged while the next one runs, so that agreeing costs no
    time; all ranks act on them one step later, and so at the same step.
    """

    def __init__(self, job: Job, group: Group) -> None:
        self.is_agreed = False
        self._job = job
        self._group = group
        self._under_way: Callable[[], int] | None = None
        # From now on SIGTERM is noted instead of ending the process.
        stop_listener()

    def is_requested(self) -> bool:
        """Whether this process was asked to stop."""
        return find_stop(self._job.paths) is not None

    def agree(self, is_time: Callable[[], bool]) -> tuple[bool, bool]:
        """What all ranks do now: save because the leader's time has come, and stop."""
        if self._group.size == 1:
            requests = self._requests(is_time)
        else:
            requests = self._under_way() if self._under_way is not None else 0
            # A save in this step restarts the interval: it is not requested twice.
            fresh = (lambda: False) if requests & _TIME else is_time
            self._under_way = (
                # After a stop no further exchange begins: no rank would be there to finish it.
                None if requests & _STOP else self._group.exchange(self._requests(fresh))
            )
        self.is_agreed = bool(requests & _STOP)
        return bool(requests & _TIME), self.is_agreed

    def settle(self) -> None:
        """At the end of a run: what is under way between the ranks arrives."""
        if self._under_way is not None:
            self._under_way()
            self._under_way = None

    def rest(self) -> None:
        """After the loop a SIGTERM is the script's own business again."""
        stop_listener().rest()

    def has_time(self, seconds: float) -> bool:
        """Whether something that long fits into the grace time, on every host."""
        return all(self._group.gather(seconds <= seconds_left()))

    def leave(self, step: int, *, checkpoint: int) -> None:
        """Tells the launcher, on each host, how the loop was left."""
        request = find_stop(self._job.paths)
        asked = [told for told in self._group.gather(request) if told is not None]
        if self._group.is_local_leader and asked:
            by, reason = asked[0].by, asked[0].reason
            left = Left(by=by, step=step, checkpoint=checkpoint, reason=reason)
            write_left(self._job.paths, left)

    def _requests(self, is_time: Callable[[], bool]) -> int:
        stop = _STOP if self.is_requested() else 0
        return stop | (_TIME if self._group.is_leader and is_time() else 0)
