"""A job whose metrics go to a temporary folder, and scripts that run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stoker
from stoker.worker.script_job import Job, read_script_job

DEADLINE_SECONDS = 240
SOURCE = Path(stoker.__file__).parents[1]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return read_script_job(root=tmp_path / "ml", environ={})


class Scripts:
    """Scripts of a user, each run as a worker of the launcher is: autoload and all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "ml"

    @property
    def tensorboard(self) -> Path:
        return self.root / "output/tensorboard"

    def start(self, body: str, **environ: str) -> subprocess.Popen[str]:
        file = self.folder / "script.py"
        # What the .pth file does in the image.
        wake = "import stoker.worker.autoload; stoker.worker.autoload.wake()\n"
        file.write_text(wake + textwrap.dedent(body))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SM_", "AWS_"))}
        clean |= {"STOKER_ROOT": str(self.root), "PYTHONPATH": str(SOURCE)}
        return subprocess.Popen(
            [sys.executable, str(file)],
            env=clean | environ,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, body: str, **environ: str) -> subprocess.CompletedProcess[str]:
        process = self.start(body, **environ)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, err
        return subprocess.CompletedProcess(process.args, 0, out, err)


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)
