"""Sessions inside a loop that is not ours: a framework's trainer, which counts for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from stoker.checkpoints.loop import Loop
from stoker.checkpoints.random_state import read_random_state, restore_random_state
from stoker.checkpoints.session import Session, open_session
from stoker.contract.job import Job

_T = TypeVar("_T")


class FollowedLoop(Loop):
    """Keeps the random numbers of a position that a framework counts."""

    @property
    def is_running(self) -> bool:
        """Always: a framework is between two steps only where its callback says so."""
        return True

    def start(self, loader: Iterable[_T]) -> Iterator[_T]:
        """The batches that are left of this epoch, in the order in which it began."""
        if self._resumed is not None:  # much may have been drawn since the checkpoint was read
            restore_random_state(self._resumed)
        return self._start(loader)

    def begin_epoch(self) -> None:
        """The framework is about to start its loader, and will itself skip what is done."""
        # A resumed epoch must be shuffled as it was: from the state that it began with. That of
        # the checkpoint is set in catch_up(), after the batches that are skipped.
        if self._resumed is None:
            self._epoch_start = read_random_state()
        elif self._epoch_start is not None:
            restore_random_state(self._epoch_start)

    def catch_up(self) -> None:
        """The framework has come to where the checkpoint was saved."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            restore_random_state(resumed)


def follow(
    job: Job,
    *,
    options: dict[str, Any],
    **parts: Any,  # noqa: ANN401 - whatever has a state
) -> tuple[Session, FollowedLoop]:
    """A session that is entered already, and the loop it keeps."""
    session = open_session(job, **options, **parts)
    loop = FollowedLoop(session)
    session._loop = loop
    session.__enter__()
    return session, loop
