"""Starting the training of training.py, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(__file__).with_name("training.py")
DEADLINE_SECONDS = 240


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

    def start(self, *more: str) -> subprocess.Popen[str]:
        command = [str(SCRIPT), str(self.root), *self.arguments, *more]
        return subprocess.Popen(
            [*self._launcher(), *command],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *more: str) -> tuple[int, str]:
        """The exit code, and what was said on stderr."""
        process = self.start(*more)
        try:
            _, said = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            end(process)
        return process.returncode, said

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

    def _launcher(self) -> list[str]:
        if self.ranks == 1 and "--sharded" not in self.arguments:
            return [sys.executable]
        rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
        processes = f"--nproc-per-node={self.ranks}"
        return [sys.executable, "-m", "torch.distributed.run", *rendezvous, processes]


def end(process: subprocess.Popen[str]) -> None:
    """Kills a run and all it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
        if process.stderr:
            process.stderr.close()


def wait_for(file: Path) -> None:
    """Waits for a file, as long as a busy machine may need to import torch before it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.01)
