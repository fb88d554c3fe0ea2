"""Many things done a few at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")

_WORKERS = 8


def run_all(
    tasks: Iterable[Task], act: Callable[[Task], None], *, workers: int = _WORKERS
) -> None:
    """Act on each task, in a few threads; the first failure ends all of them and is raised.

    Tasks are taken one by one as a thread gets free: millions of them cost no memory.
    """
    iterator = iter(tasks)
    lock = threading.Lock()
    stopped = threading.Event()

    def work() -> None:
        try:
            while not stopped.is_set():
                with lock:
                    task = next(iterator)
                act(task)
        except StopIteration:
            return
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(workers, thread_name_prefix="transfer") as pool:
        futures = [pool.submit(work) for _ in range(workers)]
    for future in futures:
        future.result()
