"""Loops that can be left and entered again: epochs, and batches inside an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.checkpoints.random_state import (
    generators_of,
    read_random_state,
    restore_generators,
    restore_random_state,
)
from stoker.errors import CheckpointFailed

if TYPE_CHECKING:
    from stoker.checkpoints.session import Session

_T = TypeVar("_T")
_END = object()


class Leave(BaseException):
    """Takes the script out of all its loops to the end of the `with` block, and no further.

    Not an Exception: a script's own `except Exception` around a step must not swallow it.
    """


class Loop:
    """The place of a run in its epochs and batches, and the random numbers that belong to it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._progress = session.progress
        self._generators: list[Any] = []
        self._epoch_start: dict[str, Any] | None = None
        """Random states right before the loader was started: they decide its order."""
        self._resumed: dict[str, Any] | None = None
        """Random states of the checkpoint, until the loop has come to where it was."""
        self._in_epochs = False
        self._has_batches = False

    @property
    def is_running(self) -> bool:
        """Whether a save now would be in the middle of a step."""
        return self._in_epochs or self._has_batches

    def state(self) -> dict[str, Any]:
        """What this rank must save to come back to this very place."""
        return {
            "random": read_random_state(self._generators),
            "epoch_start": self._epoch_start,
        }

    def continue_from(self, own: dict[str, Any]) -> None:
        """Takes over what `state` said at the save."""
        self._epoch_start = own["epoch_start"]
        self._resumed = own["random"]
        restore_random_state(own["random"])

    def epochs(self, count: int) -> Iterator[int]:
        self._in_epochs = True
        progress = self._progress
        try:
            while progress.epoch < count:
                # Once more, as the script may have drawn numbers between `with` and `for`.
                if self._resumed is not None:
                    restore_random_state(self._resumed)
                self._has_batches = False
                yield progress.epoch
                if not self._has_batches:
                    progress.step += 1
                self._end_epoch()
                if self._session.reach_boundary():
                    raise Leave
        finally:
            self._in_epochs = self._has_batches = False

    def batches(self, loader: Iterable[_T]) -> Iterator[tuple[int, _T]]:
        if self._has_batches:
            raise CheckpointFailed(
                f"batches() is used a second time in epoch {self._progress.epoch}",
                fix="use it for the training batches only; loop over others as usual",
            )
        self._has_batches = True
        try:
            for batch in self._start(loader):
                yield self._progress.step, batch
                self._progress.batch += 1
                if self._session.advance():
                    raise Leave
        finally:
            # Inside of epochs() a second batches() of one epoch is refused, so the mark stays
            # until the next.
            self._has_batches = self._in_epochs
        if not self._in_epochs:
            self._end_epoch()

    def _end_epoch(self) -> None:
        self._progress.epoch += 1
        self._progress.batch = 0
        self._epoch_start = self._resumed = None

    def _start(self, loader: Iterable[_T]) -> Iterator[_T]:
        """The loader's batches from where the run is: its order again, then what is left of it."""
        set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
        if callable(set_epoch):  # a DistributedSampler, which many forget to tell
            set_epoch(self._progress.epoch)
        self._generators = generators_of(loader)
        resumed, self._resumed = self._resumed, None
        if hasattr(loader, "state_dict"):  # it knows its own position
            return iter(loader)
        if self._progress.batch == 0:
            if resumed is not None:
                restore_generators(resumed, self._generators)
            self._epoch_start = read_random_state(self._generators)
            return iter(loader)
        return self._start_inside(loader, resumed)

    def _start_inside(self, loader: Iterable[_T], resumed: dict[str, Any] | None) -> Iterator[_T]:
        if self._epoch_start is not None:
            restore_random_state(self._epoch_start)
            restore_generators(self._epoch_start, self._generators)
        batches = iter(loader)
        _skip(batches, self._progress.batch)
        if resumed is not None:
            restore_random_state(resumed)
            restore_generators(resumed, self._generators)
        return batches


def _skip(batches: Iterator[Any], count: int) -> None:
    """Passes over batches that are done; where nothing is prefetched, without loading them."""
    # torch's iterator of a DataLoader: in the main process it asks this one for the next indices,
    # then loads. With workers, batches are on their way already.
    indices = getattr(batches, "_sampler_iter", None)
    if indices is not None and getattr(batches, "_num_workers", None) == 0:
        batches = indices
    for _ in range(count):
        # Not a loop over it: iter() would start Lightning's loader over.
        if next(batches, _END) is _END:
            return  # it has fewer by now
