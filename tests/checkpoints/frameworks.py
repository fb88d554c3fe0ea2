"""What the tests of the frameworks' callbacks share: a job on a temporary folder, and signals."""

from __future__ import annotations

import os
import random
import signal
from contextlib import contextmanager

import numpy as np
import torch

import stoker
from stoker.bus import stop
from stoker.checkpoints.store import Store


def make_job(folder):
    """A job whose checkpoints lie in this very folder's `checkpoints`."""
    (folder / "input/config").mkdir(parents=True, exist_ok=True)
    return stoker.job(root=folder)


def names_in(job):
    return [checkpoint.name for checkpoint in Store(job.checkpoint_dir).read_all()]


@contextmanager
def a_process_of_its_own():
    """Signals, seeds and the environment belong to processes: each part of a test has its own."""
    handler, environ = signal.getsignal(signal.SIGTERM), dict(os.environ)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more only wait for each other on models so small
    stop._LISTENERS.clear()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    try:
        yield
    finally:
        stop._LISTENERS.clear()
        signal.signal(signal.SIGTERM, handler)
        torch.set_num_threads(threads)
        os.environ.clear()  # both libraries leave notes for processes they might start
        os.environ.update(environ)


class Broken(Exception):
    """A run that fails."""


class Interruption:
    """Sends this process SIGTERM, or breaks it, when the model has been run so many times."""

    def __init__(self, at: int = 0, *, breaks: bool = False) -> None:
        self._left = at
        self._breaks = breaks

    def count(self) -> None:
        self._left -= 1
        if self._left == 0 and self._breaks:
            raise Broken
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
