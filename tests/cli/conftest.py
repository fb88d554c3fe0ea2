"""The `stoker` command as a user calls it, and a platform of the test's own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEADLINE_SECONDS = 240  # a server and torch are loaded by then, however busy the machine is
# Whatever the machine's own settings are, a test begins without them.
_PREFIXES = ("AWS_", "SAGEMAKER_", "STOKER_")
CLOUD_SCRIPT = """
import os, sys
print(open(os.environ["SM_CHANNEL_TRAIN"] + "/words.txt").read(), sys.argv[1:])
print("[metric] step=1 loss=0.25")
open(os.environ["SM_MODEL_DIR"] + "/model.bin", "w").write("trained")
sys.exit(int(os.environ.get("SM_HP_CODE", "0")))
"""


class Cli:
    """Runs the command in a folder; `platform` is the root that its jobs run on."""

    def __init__(self, folder: Path, platform: Path) -> None:
        self.folder = folder
        self.platform = platform

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environ)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(_PREFIXES)}
        return subprocess.Popen(
            [sys.executable, "-m", "stoker.cli.main", *arguments],
            cwd=self.folder,
            env={**clean, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_platform(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.run(*arguments, "--root", str(self.platform), **environ)

    def up(self, engine: str = "process", **environ: str) -> None:
        done = self.on_platform("local", "up", "--detach", "--engine", engine, **environ)
        assert done.returncode == 0, done.stdout + done.stderr

    def down(self) -> None:
        done = self.on_platform("local", "down")
        assert done.returncode == 0, done.stdout + done.stderr


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    """Reads a command's output up to the line that holds the text; returns all of it."""
    seen = ""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while text not in seen:
        line = process.stdout.readline()
        assert line, f"{text!r} never came:\n{seen}\n{process.stderr.read()}"
        assert time.monotonic() < deadline
        seen += line
    return seen


@pytest.fixture
def cli(tmp_path):
    """The command; a platform that was started is ended, whatever the test did."""
    command = Cli(tmp_path, tmp_path / "platform")
    yield command
    if command.platform.exists():
        command.down()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    """A platform, and the variables that make it play AWS."""
    folder = tmp_path_factory.mktemp("cloud")
    for name in ("src", "data", "home"):
        (folder / name).mkdir()
    (folder / "data/words.txt").write_text("coal")
    (folder / "src/train.py").write_text(CLOUD_SCRIPT)
    (folder / "src/waits.py").write_text(
        "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    )
    command = Cli(folder, folder / "platform")
    command.up()
    lines = command.on_platform("local", "env").stdout.splitlines()
    words = [shlex.split(line) for line in lines if line.startswith("export ")]
    command.environ = dict(word.split("=", 1) for line in words for word in line[1:])
    command.environ["HOME"] = str(folder / "home")
    yield command
    command.down()
