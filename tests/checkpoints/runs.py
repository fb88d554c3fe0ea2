"""Starting the training of training.py, and what it leaves behind.

The ranks are forked from a process that has loaded torch: importing it costs more CPU than all
they do. What torchrun adds is shown in test_stopping and test_framework_ranks.
"""

from __future__ import annotations

import multiprocessing
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.checkpoints import forked

SCRIPT = Path(__file__).with_name("training.py")
DEADLINE_SECONDS = 240
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([forked.__name__])


def run_ranks(roots: Sequence[Path], *arguments: str) -> tuple[int, str]:
    """Runs one rank over each root to its end; equal roots are ranks of one host.

    Returns:
        The exit code of the first rank that failed, else 0, and what all said on stderr.
    """
    said = roots[0] / f"said-{uuid.uuid4().hex}"
    rendezvous = f"file://{said}.rendezvous"
    ranks = [
        FORKS.Process(
            target=forked.train_rank,
            args=([str(root), *arguments], said, make_environ(rank, roots), rendezvous),
        )
        for rank, root in enumerate(roots)
    ]
    for process in ranks:
        process.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    for process in ranks:
        process.join(max(0.0, deadline - time.monotonic()))
    unfinished = [rank for rank, process in enumerate(ranks) if process.is_alive()]
    for process in ranks:
        process.kill()
        process.join()
    assert not unfinished, f"ranks {unfinished} did not end:\n{said.read_text()}"
    return next((p.exitcode for p in ranks if p.exitcode), 0), said.read_text()


def make_environ(rank: int, roots: Sequence[Path]) -> dict[str, str]:
    """What torchrun tells a worker."""
    host = roots[rank]
    names = {
        "RANK": rank,
        "WORLD_SIZE": len(roots),
        "LOCAL_RANK": roots[:rank].count(host),
        "LOCAL_WORLD_SIZE": roots.count(host),
        "GROUP_RANK": len(set(roots[:rank]) - {host}),
    }
    return {name: str(value) for name, value in names.items()}


class Run:
    """One training over one root, in as many processes one after the other as it takes."""

    def __init__(self, root: Path, *arguments: str, ranks: int = 1) -> None:
        self.root = root
        self.arguments = arguments
        self.ranks = ranks
        root.mkdir(parents=True, exist_ok=True)

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def weights(self) -> str:
        """A hash of the final weights; empty as long as the run has not ended."""
        file = self.root / "weights"
        return file.read_text() if file.exists() else ""

    def run(self, *more: str) -> tuple[int, str]:
        """The exit code, and what was said on stderr."""
        return run_ranks([self.root] * self.ranks, *self.arguments, *more)

    def finish(self, *more: str) -> str:
        """Runs to the end, and returns what was said."""
        code, said = self.run(*more)
        assert code == 0, said
        assert self.weights, said
        return said

    def losses(self, rank: int = 0) -> dict[int, str]:
        """Step → loss, the later one where a step was done twice."""
        lines = (self.root / f"losses-{rank}").read_text().splitlines()
        return {int(step): loss for step, loss in (line.split() for line in lines)}


def wait_for(file: Path) -> None:
    """Waits for a file, as long as a busy machine may need to import torch before it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.01)
