"""What DataLoaders do: they have no hooks, so their two public methods are wrapped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from torch.utils.data import DataLoader
from torch.utils.data import dataloader as implementation

_MOST_LISTED = 8


class Listener(Protocol):
    """Receives what the loaders of this process do. Never raises."""

    def begin_epoch(self) -> int: ...
    def end_epoch(self, token: int, loader: DataLoader[Any], iterator: Iterator[Any]) -> None: ...
    def begin_fetch(self, iterator: Iterator[Any]) -> int: ...
    def end_fetch(self, token: int, *, is_batch: bool) -> None: ...


def watch_loaders(listener: Listener) -> None:
    """Calls the listener from now on."""
    base: Any = implementation._BaseDataLoaderIter
    loader: Any = DataLoader
    start: Callable[..., Iterator[Any]] = loader.__iter__
    fetch: Callable[..., Any] = base.__next__

    @functools.wraps(start)
    def start_and_tell(self: DataLoader[Any]) -> Iterator[Any]:
        token = listener.begin_epoch()
        iterator = None
        try:
            iterator = start(self)
            return iterator
        finally:
            if iterator is not None:
                listener.end_epoch(token, self, iterator)
            else:
                listener.end_fetch(token, is_batch=False)

    @functools.wraps(fetch)
    def fetch_and_tell(self: Iterator[Any]) -> Any:  # noqa: ANN401 - whatever is loaded
        token = listener.begin_fetch(self)
        is_batch = False
        try:
            batch = fetch(self)
            is_batch = True
            return batch
        finally:
            listener.end_fetch(token, is_batch=is_batch)

    # A subclass that replaces these calls ours through super(), or is not measured.
    loader.__iter__ = start_and_tell
    base.__next__ = fetch_and_tell


def count_ready(iterator: Any) -> int:  # noqa: ANN401 - torch does not publish its type
    """Batches that worker processes have finished; -1 if the loader has none."""
    try:
        queue, tasks = iterator._data_queue, iterator._task_info
        # A task that is done out of order has its batch next to the number of its worker.
        return int(queue.qsize()) + sum(len(task) == 2 for task in tasks.values())
    except (AttributeError, NotImplementedError, OSError, RuntimeError):
        return -1


def describe_loader(loader: DataLoader[Any], *, is_training: bool) -> Mapping[str, Any]:
    """What decides how fast it is."""
    dataset, sampler = loader.dataset, loader.batch_sampler
    return {
        "batch_size": loader.batch_size or getattr(sampler, "batch_size", None),
        "num_workers": loader.num_workers,
        "pin_memory": bool(loader.pin_memory),
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "drop_last": loader.drop_last,
        "multiprocessing_context": str(_context_name(loader)),
        "dataset": type(dataset).__name__,
        "samples": _length(dataset),
        "batches": _length(loader),
        "phase": "train" if is_training else "eval",
    }


def add_loader(known: tuple[Mapping[str, Any], ...], new: Mapping[str, Any]) -> bool:
    """Whether a description is new, and few enough are listed."""
    return new not in known and len(known) < _MOST_LISTED


def _context_name(loader: DataLoader[Any]) -> str:
    context = loader.multiprocessing_context
    method = getattr(context, "get_start_method", None)
    return str(method()) if method is not None else ""


def _length(sized: Any) -> int | None:  # noqa: ANN401 - a dataset need not have a length
    # Only what costs nothing: a user's __len__ may read a whole file, but loaders call it, too.
    try:
        return len(sized)
    except Exception:  # an iterable data set, or the user's own error
        return None
