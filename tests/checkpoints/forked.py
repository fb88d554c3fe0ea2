"""One rank of training.py in a process that is forked from one which has imported this module."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from tests.checkpoints import training

# The first optimizer of a process loads torch's compiler, which takes longer than torch itself.
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def train_rank(
    arguments: Sequence[str], said: Path, environ: Mapping[str, str], rendezvous: str
) -> None:
    """The whole life of the process; what it says on stderr is appended to a file."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    os.environ.update(environ)
    # Else its loaders would start their workers as it was started itself.
    multiprocessing.set_start_method("fork", force=True)
    sys.argv = ["training.py", *arguments]
    training.main(rendezvous=rendezvous)
